//! `submit --dry-run`: what would be submitted, without a farm.

use std::sync::Arc;

use starfarm_protocol::admin::NeedsInfo;
use starfarm_protocol::job::Sizing;
use starfarm_protocol::units::Units;

use serde::Serialize;
use starfarm_decomposers::Decomposer;
use starfarm_decomposers::growth::Values;
use starfarm_decomposers::program::Program;
use starfarm_decomposers::template::{Rules, TASK_NAMES, UnitText};
use starfarm_protocol::bulk::Located;
use starfarm_protocol::ids::{ContentHash, to_hex};
use starfarm_protocol::spec::{CommandWork, OwnSpace, Per, Space, Work};
use starfarm_protocol::trust::check_planted;
use starfarm_worker::Compiled;

use crate::failure::Failure;
use crate::human;
use crate::jobfile::{Held, JobFile};
use crate::output::table::{Cell, facts};
use crate::output::{Document, Style};

#[derive(Serialize)]
pub(super) struct DryRun {
    name: String,
    /// None where a program names the units.
    units_total: Option<Units>,
    /// None where a program names no unit.
    first: Option<Sample>,
    /// None where a program names the units, and did not come to its end.
    last: Option<Sample>,
    target_seconds: Option<f64>,
    units_per_task: Option<u64>,
    /// None where a unit takes one slot.
    needs: Option<NeedsInfo>,
    /// Tasks of that size; none where the farm decides.
    tasks: Option<Units>,
    /// None where answers are planted: only the scheduler knows these, and so the hash.
    spec: Option<ContentHash>,
    /// Without what is planted.
    spec_bytes: u64,
    list_bytes: u64,
    /// Files that go along, and their bytes.
    input_files: u64,
    input_bytes: u64,
    /// A device of this machine that the kernel was compiled for; none where there is none that suits, or no kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    compiled_for: Option<String>,
    /// Why a kernel was not compiled.
    #[serde(skip)]
    not_compiled: Option<String>,
}

#[derive(Serialize)]
struct Sample {
    unit: Units,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    /// The program and its arguments with the unit filled in; none where no program is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Vec<String>>,
}

pub(super) fn describe(job: &JobFile) -> Result<DryRun, Failure> {
    let (space, named) = match &job.spec.space {
        Space::Program(own) => named(own)?,
        _ => {
            let space = job.opened().map_err(Failure::usage)?;
            let all = Named { units: space.units(), end: true };
            (space, all)
        }
    };
    let units = named.units;
    check_planted(job.trust.planted, units).map_err(Failure::usage)?;
    let (compiled_for, not_compiled) = match &job.spec.work {
        Work::OpenCl(kernel) => {
            match starfarm_worker::check(&job.spec, &kernel.needs).map_err(Failure::usage)? {
                Compiled::For(device) => (Some(device), None),
                Compiled::Unknown(why) => (None, Some(why)),
            }
        }
        _ => (None, None),
    };
    let units_per_task = match job.sizing {
        Sizing::TargetUs(_) => None,
        Sizing::Units(units) => Some(units),
    };
    let spec = job.spec.to_bytes();
    Ok(DryRun {
        name: job.name.clone(),
        units_total: named.end.then_some(Units(units)),
        first: (units > 0).then(|| sample(&*space, 0, &job.spec.work)).transpose()?,
        last: units.checked_sub(1).map(|unit| sample(&*space, unit, &job.spec.work)).transpose()?,
        target_seconds: job.sizing.target_seconds(),
        units_per_task,
        needs: NeedsInfo::of(job.spec.work.facts().needs),
        tasks: units_per_task.filter(|_| named.end).map(|size| Units(units.div_ceil(u128::from(size)))),
        spec: (job.trust.planted == 0).then(|| ContentHash::of(&spec)),
        spec_bytes: spec.len() as u64,
        list_bytes: job.blobs.iter().map(|blob| blob.len() as u64).sum(),
        input_files: job.inputs.len() as u64,
        input_bytes: job.inputs.iter().map(|file| file.input.bytes).sum(),
        compiled_for,
        not_compiled,
    })
}

/// Units that are known, and whether these are all.
struct Named {
    units: u128,
    end: bool,
}

/// Units that a program is asked for to show how they look.
const PREVIEW_UNITS: u32 = 5;

/// The first units that a program names on this machine.
fn named(own: &OwnSpace) -> Result<(Box<dyn Decomposer>, Named), Failure> {
    let batch = starfarm_scheduler::preview(own, PREVIEW_UNITS)
        .map_err(|why| Failure::usage(format!("the program that names the units {why}")))?;
    let named = Named { units: batch.units().into(), end: batch.end };
    let contents = batch.chunks.iter().map(|chunk| chunk.content.as_slice());
    let chunks = Arc::new(Held::of(contents));
    let space = Program::new(own, chunks).map_err(Failure::usage)?;
    let mut first = 0;
    for Values { content, units, .. } in &batch.chunks {
        space.learn(Located { hash: ContentHash::of(content), first, units: *units });
        first += u128::from(*units);
    }
    Ok((Box::new(space), named))
}

fn sample(space: &dyn Decomposer, unit: u128, work: &Work) -> Result<Sample, Failure> {
    let mut text = UnitText::of(space, unit).map_err(|error| Failure::usage(error.to_string()))?;
    if let Work::Command(CommandWork { per: Per::Task, .. }) = work {
        // As a task of this unit alone has them.
        let [lo, hi] = [unit, unit + 1].map(|unit| space.bound(unit));
        let values = [lo.clone(), hi, lo, "1".to_owned(), "FILE".to_owned()].map(String::into_bytes);
        text.fields = TASK_NAMES.map(str::to_owned).into_iter().zip(values).collect();
    }
    let program = match work {
        Work::Command(command) => {
            let rules = Rules::of(command, &space.names());
            let filled = |word: &String| String::from_utf8_lossy(&rules.word(word).fill(&text)).into_owned();
            Some(command.program.iter().map(filled).collect())
        }
        _ => None,
    };
    let value_hex = std::str::from_utf8(&text.value).is_err().then(|| to_hex(&text.value));
    let value = String::from_utf8_lossy(&text.value).into_owned();
    Ok(Sample { unit: Units(unit), value, value_hex, program })
}

impl Sample {
    fn show(&self) -> String {
        match &self.program {
            None => format!("unit {}: {}", self.unit, self.value),
            Some(program) => format!("unit {}: {}: {}", self.unit, self.value, program.join(" ")),
        }
    }
}

impl Document for DryRun {
    const NAME: &'static str = "dry-run";

    fn table(&self, style: Style) -> String {
        let size = match (self.units_per_task, self.tasks) {
            (Some(units), Some(tasks)) => {
                format!("{} units, {} tasks", human::count(units as f64), human::units(tasks))
            }
            _ => format!("about {} each", human::seconds_if_known(self.target_seconds)),
        };
        let spec = self.spec.map_or_else(|| "without what is planted".to_owned(), |hash| hash.to_string());
        let (units, last) = match self.units_total {
            Some(units) => (format!("{}  ({units})", human::units(units)), "last"),
            None => ("as many as the program names".to_owned(), "then"),
        };
        let shown =
            |sample: &Option<Sample>| Cell::new(sample.as_ref().map_or_else(|| "-".to_owned(), Sample::show));
        let mut pairs = vec![
            ("name", Cell::new(&self.name)),
            ("units", Cell::new(units)),
            ("first", shown(&self.first)),
            (last, shown(&self.last)),
            ("tasks", Cell::new(size)),
            ("specification", Cell::new(format!("{} B, {spec}", self.spec_bytes))),
        ];
        if let Some(needs) = self.needs {
            pairs.push(("slots of a unit", Cell::new(needs.slots.to_string())));
            pairs.push(("memory of a unit", Cell::new(human::memory(needs.memory_bytes))));
            if needs.gpus > 0.0 {
                pairs.push(("GPUs of a unit", Cell::new(needs.gpus.to_string())));
            }
        }
        if self.list_bytes > 0 {
            pairs.push(("list", Cell::new(human::bytes(self.list_bytes))));
        }
        if self.input_files > 0 {
            let (files, bytes) = (self.input_files, human::bytes(self.input_bytes));
            let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
            pairs.push(("inputs", Cell::new(format!("{files}, {bytes}"))));
        }
        if let Some(device) = &self.compiled_for {
            pairs.push(("kernel", Cell::new(format!("compiled for {device}"))));
        }
        if let Some(why) = &self.not_compiled {
            let why = format!("not compiled: {why}; the first node tells what is wrong with it");
            pairs.push(("kernel", Cell::new(why)));
        }
        facts(&pairs, style)
    }

    fn quiet(&self) -> String {
        self.units_total.map_or_else(|| "-".to_owned(), |units| units.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;

    use super::*;
    use crate::jobfile::parse;
    use crate::output::Format;
    use crate::output::testing::printed;

    fn shown(text: &str) -> String {
        let job = parse(text, "demo.toml", Path::new("")).unwrap();
        printed(Format::Table, |printer| printer.document(&describe(&job)?))
    }

    fn planting(planted: u32) -> String {
        format!(
            "[space]\nkind = \"chars\"\nmask = \"?d\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
             targets = [\"92eb5ffee6ae2fec3ad71c777531578f\"]\n[trust]\nplanted = {planted}\n"
        )
    }

    #[test]
    fn a_space_has_room_for_what_is_planted() {
        let described =
            |planted| describe(&parse(&planting(planted), "x.toml", Path::new("")).unwrap()).map(drop);
        assert_eq!(described(10), Ok(()));
        let few = Failure::usage("10 units are too few for 11 planted answers: plant fewer");
        assert_eq!(described(11), Err(few));
    }

    #[test]
    fn what_plants_answers_has_no_hash_before_it_is_submitted() {
        let shown = shown(&planting(9));
        assert!(shown.ends_with(" B, without what is planted\n"), "{shown}");
        let job = parse(&planting(9), "x.toml", Path::new("")).unwrap();
        let json = printed(Format::Json, |printer| printer.document(&describe(&job)?));
        assert!(json.contains("\"spec\": null"), "{json}");
    }

    #[test]
    fn a_search_and_a_command() {
        expect![[r#"
            name           demo
            units          260  (260)
            first          unit 0: a0
            last           unit 259: z9
            tasks          about 8 s each
            specification  227 B, a4e80da15c1e1800abc8b2ac73db5f7d30b5e60954507f04f6935864bb883529
        "#]]
        .assert_eq(&shown(
            "[space]\nkind = \"chars\"\nmask = \"?l?d\"\n[task]\nexecutor = \"search\"\nalgorithm = \"md5\"\n\
             targets = [\"d41d8cd98f00b204e9800998ecf8427e\"]\n",
        ));
        expect![[r#"
            name           demo
            units          4  (4)
            first          unit 0: 1 x: 1 --b=x
            last           unit 3: 2 y: 2 --b=y
            tasks          3 units, 2 tasks
            specification  181 B, d8dd766112d6a5b24df84d71bb2b95a056fe0dd78c38d6f074e380b7fc4d1278
        "#]]
        .assert_eq(&shown(
            "[space]\nkind = \"grid\"\n[space.grid]\na = [1, 2]\nb = [\"x\", \"y\"]\n[task]\n\
             executor = \"command\"\nprogram = [\"{a}\", \"--b={b}\"]\nunits_per_task = 3\n",
        ));
    }
}
