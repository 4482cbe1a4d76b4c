//! `accelerators`: the load of all cards of the node and how much of their memory is used, as the worker's file `cards.json`
//! has it. The worker asks the drivers, in a process of its own; a node without cards has no such file, and nothing is said.
//!
//! Setting: `file`, its path. Whoever makes the stage sets it once.

use std::path::PathBuf;

use starfarm_agent_core::{Context, Module, Stage, Summary, Type, ids};
use starfarm_protocol::gauges::{FILE_BYTES_MAX, Gauges, load};
use starfarm_protocol::metric::Metric;

use super::measure::{Measure, OUT, Sensor};

/// This sensor.
pub const MODULE: Module =
    Module { name: Accelerators::NAME, types: &[Type { name: Accelerators::NAME, new: &stage }] };

/// One that knows no file yet.
pub fn stage() -> Box<dyn Stage> {
    Box::new(Sensor(Accelerators::default()))
}

/// What the file says at this moment; nothing where there is none. It is another file each time, so that it is opened anew.
pub(super) fn read(file: &std::path::Path) -> Option<Gauges> {
    let is_small = std::fs::metadata(file).ok()?.len() <= FILE_BYTES_MAX;
    Gauges::read(&is_small.then(|| std::fs::read(file))?.ok()?).ok()
}

#[derive(Default)]
struct Accelerators {
    file: Option<PathBuf>,
}

impl Measure for Accelerators {
    const NAME: &'static str = "accelerators";

    fn measure(&mut self, context: &mut Context<'_>) {
        let Some(gauges) = self.file.as_deref().and_then(read) else { return };
        let sum = |value: fn(&_) -> Option<u64>| {
            let all = gauges.cards.iter().filter_map(|gauge| value(&gauge.figures));
            all.map(Summary::of).reduce(Summary::and)
        };
        let (load, memory) = (sum(load), sum(|figures| figures.memory_used_bytes));
        context.emit(OUT, |message| {
            for (metric, summary) in [(Metric::Gpu, load), (Metric::GpuMemory, memory)] {
                summary.into_iter().for_each(|summary| message.put(ids::of(metric), &summary.write()));
            }
        });
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "file" if self.file.is_some() => Err(format!("`file` of `{}` is set already", Self::NAME)),
            "file" if !value.starts_with('/') => Err(format!("`{value}` is no absolute path")),
            "file" => {
                self.file = Some(value.into());
                Ok(())
            }
            _ => Err(format!("`{}` has no setting `{key}`", Self::NAME)),
        }
    }
}
