//! `executor = "opencl"`: a kernel of the user's own, on devices.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use starfarm_protocol::spec::{
    BLOCK_BYTES_MAX, Counter, Fold, HITS_MAX, KERNEL_BYTES_MAX, KernelWork, LAUNCH_MS, Merge, Work,
    is_identifier, is_taken,
};

use super::executor::{Executor, milliseconds};
use crate::jobfile::error::JobFileError;
use crate::jobfile::job::JobFile;
use crate::jobfile::needs;
use crate::jobfile::table::{Item, Kind, Section};

pub(super) const EXECUTOR: Executor = Executor {
    kind: Kind {
        name: "opencl",
        keys: &[
            "kernel",
            "entry",
            "constants",
            "block",
            "hits",
            "counters",
            "needs",
            "launch_seconds",
            "retries",
        ],
    },
    read,
    help: r#"[task] executor = "opencl": a kernel of your own over the units, on devices
    kernel = "scan.cl"        the file with its text, OpenCL C
    entry = "scan"            the kernel's name in it [default: the file's]
    constants = { WIDTH = 1920 }
                              macros that the text may use
    block = 4096              bytes that each unit leaves: standard output of a
                              run has those of its units; or
    hits = 1000               units that a launch may name, and
    counters = { best = "min double" }
                              numbers of which each unit leaves one: sum, min or
                              max of long, ulong, float or double
    needs = { device = "gpu", api = "opencl>=1.2", memory = "2GiB" }
                              what a device must be [default: any]
    launch_seconds = 5        a launch that takes longer is ended [default: 5]
    retries = 2               a unit that fails is tried again [default: 0]
"#,
};

fn read(section: &Section<'_>, job: &mut JobFile, base: &Path) -> Result<(), JobFileError> {
    let kernel = section.require("kernel", "the file with the kernel's text, e.g. kernel = \"scan.cl\"")?;
    let name = kernel.string()?;
    let path = base.join(name);
    let source = fs::read_to_string(&path)
        .map_err(|error| kernel.error(format!("`{name}` cannot be read: {error}")))?;
    if source.len() > KERNEL_BYTES_MAX {
        return Err(kernel.error(format!("`{name}` has more than {KERNEL_BYTES_MAX} bytes")));
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let entry = section.read("entry", |item| item.string().map(str::to_owned))?.unwrap_or(stem);
    starfarm_decomposers::digits(&job.spec.space)
        .map_err(|why| section.require("executor", "").map_or_else(|e| e, |item| item.error(why)))?;
    let launch = section.read("launch_seconds", |item| item.seconds(600.0))?;
    let work = KernelWork {
        file: name.to_owned(),
        kernel: entry,
        constants: section.read("constants", constants)?.unwrap_or_default(),
        block_bytes: section.read("block", |item| item.integer_within(1, BLOCK_BYTES_MAX))?.unwrap_or(0),
        hits: section.read("hits", |item| item.integer_within(1, HITS_MAX.into()))?.unwrap_or(0) as u32,
        counters: section.read("counters", counters)?.unwrap_or_default(),
        needs: section.read("needs", needs::read)?.unwrap_or_default(),
        launch_ms: launch.map_or(LAUNCH_MS, milliseconds),
        retries: section.read("retries", |item| item.integer_within(0, u64::from(u32::MAX)))?.unwrap_or(0)
            as u32,
        merge: None,
        source,
    };
    work.check().map_err(|why| kernel.error(why))?;
    let merge = work.reports().then_some(Merge::Fold(Fold::Report));
    job.spec.work = Work::OpenCl(KernelWork { merge, ..work });
    Ok(())
}

fn named<T>(
    item: &Item<'_>,
    read: impl Fn(&Item<'_>) -> Result<T, JobFileError>,
) -> Result<BTreeMap<String, T>, JobFileError> {
    let mut all = BTreeMap::new();
    for item in item.table()?.items() {
        if !is_identifier(&item.name) {
            let message = format!("`{}` is no name in OpenCL C: use letters, digits and _", item.name);
            return Err(item.error(message));
        }
        all.insert(item.name.clone(), read(&item)?);
    }
    Ok(all)
}

fn constants(item: &Item<'_>) -> Result<BTreeMap<String, String>, JobFileError> {
    named(item, |item| match is_taken(&item.name) {
        true => {
            Err(item.error(format!("`{}` is what the farm itself defines: name it otherwise", item.name)))
        }
        false => item.scalar(),
    })
}

fn counters(item: &Item<'_>) -> Result<BTreeMap<String, Counter>, JobFileError> {
    named(item, |item| {
        Counter::parse(item.string()?).map_err(|why| item.error(format!("`{}`: {why}", item.name)))
    })
}
