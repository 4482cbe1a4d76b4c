//! Words that all sentences share.

use std::borrow::Cow;

use starfarm_events::counted;
use starfarm_protocol::admin::explain::Lack;
use starfarm_protocol::devices::DeviceFacts;
use starfarm_protocol::resources::{Resource, cards};

use crate::human::{memory, seconds};

/// A reason's code, and the verdict where it decides: the end of a sentence that begins with the subject.
pub(super) type Head<'a> = (&'a str, Cow<'static, str>);

/// A time that has passed or is to pass.
pub(super) fn time(us: u64) -> String {
    seconds(us as f64 / 1e6)
}

/// When something happens that is due in so long.
pub(super) fn due(us: u64) -> String {
    if us == 0 { "at once".to_owned() } else { format!("in {}", time(us)) }
}

/// So much of a resource.
pub(super) fn amount(resource: Resource, amount: u64) -> String {
    match resource {
        Resource::Slots => counted(amount, "slot"),
        Resource::Memory => format!("{} of memory", memory(amount)),
        Resource::Gpus => match cards(amount) {
            1.0 => "1 GPU".to_owned(),
            share if share > 0.0 && share < 1.0 => format!("{share} of a GPU"),
            cards => format!("{cards} GPUs"),
        },
    }
}

/// So much of each.
pub(super) fn amounts(all: &[(Resource, u64)]) -> String {
    let all: Vec<String> = all.iter().map(|of| amount(of.0, of.1)).collect();
    all.join(" and ")
}

/// The devices of a node, as a job may ask for them.
pub(super) fn devices(all: &[DeviceFacts]) -> String {
    let device = |of: &DeviceFacts| {
        let ((major, minor), memory) = (of.version, memory(of.memory_bytes));
        format!("{} ({}, OpenCL {major}.{minor}, {memory})", of.name, of.kind)
    };
    match all {
        [] => "none that it uses".to_owned(),
        _ => all.iter().map(device).collect::<Vec<_>>().join(" and "),
    }
}

/// What a unit needs that is not there.
pub(super) fn needs(lack: &Lack) -> String {
    amount(lack.resource, lack.needs)
}

/// What there is of it.
pub(super) fn has(lack: &Lack) -> String {
    amount(lack.resource, lack.has)
}
