//! Folders like /proc, a worker's file `running`, and a runtime around one sensor.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use starfarm_agent_core::{Context, Hook, Order, Runtime, Stage, Summary, Triples, ValueId, Who, Word, ids};
use starfarm_protocol::ids::{FarmId, JobId};
use starfarm_protocol::metric::Metric;
use starfarm_protocol::running::{RECORD_BYTES, Slot, Tally, write};

pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const FARM: FarmId = FarmId([5; 16]);

/// A folder that goes away with the value.
pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("starfarm-agent-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.0.join(name);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said(Vec<(ValueId, Vec<u8>)>);

impl Said {
    pub(crate) fn value(&self, id: ValueId) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn number(&self, metric: Metric) -> Option<u64> {
        self.value(ids::of(metric)).map(|value| u64::from_le_bytes(value.try_into().unwrap()))
    }

    pub(crate) fn summary(&self, metric: Metric) -> Option<Summary> {
        self.value(ids::of(metric)).map(|value| Summary::read(value).unwrap())
    }

    pub(crate) fn sum(&self, metric: Metric) -> Option<u64> {
        self.summary(metric).map(|summary| summary.sum)
    }

    /// The job that it is about, and how many units run.
    pub(crate) fn of(&self) -> (u64, u64) {
        let number = |id| u64::from_le_bytes(self.value(id).unwrap().try_into().unwrap());
        (number(ids::JOB), number(ids::UNITS))
    }
}

#[derive(Clone, Default)]
struct Heard(Rc<RefCell<Vec<Said>>>);

impl Stage for Heard {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
        let values = values.into_iter().map(|triple| (triple.id, triple.value.to_vec()));
        self.0.borrow_mut().push(Said(values.collect()));
    }
}

/// A sensor, and what it says.
pub(crate) struct Bench {
    runtime: Runtime,
    heard: Heard,
}

impl Bench {
    pub(crate) fn of(stage: Box<dyn Stage>) -> Self {
        let (mut runtime, heard) = (Runtime::new(&[]), Heard::default());
        runtime.add("sensor", stage, Some("sensor")).unwrap();
        runtime.add("heard", Box::new(heard.clone()), Some("heard")).unwrap();
        let link = Order::Link(("sensor".into(), "out".into()), ("heard".into(), "in".into()));
        runtime.order(link, 0).unwrap();
        Self { runtime, heard }
    }

    pub(crate) fn tell(&mut self, word: Word, now_us: u64) -> Result<(), String> {
        let told = self.runtime.order(Order::Tell(Who::from("sensor"), word), now_us);
        told.map(drop).map_err(|refusal| refusal.to_string())
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.tell(Word::Set { key: key.to_owned(), value: value.to_owned() }, 0)
    }

    /// The sensor's timer fires in this second of the farm's clock: what it says.
    pub(crate) fn wave(&mut self, second: u64) -> Vec<Said> {
        self.tell(Word::Fired(vec!["wave".to_owned()]), second * SECOND).unwrap();
        std::mem::take(&mut *self.heard.0.borrow_mut())
    }

    /// Something that it waits for has happened: what it says.
    pub(crate) fn woken(&mut self, now_us: u64) -> Vec<Said> {
        self.tell(Word::Ready, now_us).unwrap();
        std::mem::take(&mut *self.heard.0.borrow_mut())
    }

    /// The same of a sensor that says one message at most.
    pub(crate) fn said(&mut self, second: u64) -> Option<Said> {
        let mut said = self.wave(second);
        assert!(said.len() <= 1, "{said:?}");
        said.pop()
    }
}

/// A worker's file `running`.
pub(crate) struct Board {
    tree: Tree,
    pub(crate) slots: Vec<Tally>,
}

impl Board {
    pub(crate) fn new(slots: usize) -> Self {
        let board = Self { tree: Tree::new(), slots: vec![Tally::default(); slots] };
        board.write();
        board
    }

    pub(crate) fn path(&self) -> String {
        self.tree.path().join("running").into_os_string().into_string().unwrap()
    }

    pub(crate) fn write(&self) {
        let mut file = write(FARM, &Slot::of_start(7)).to_vec();
        for slot in &self.slots {
            let record = slot.slot().map_or([0; RECORD_BYTES], |slot| write(FARM, &slot));
            file.extend_from_slice(&record);
        }
        self.put(&file);
    }

    pub(crate) fn put(&self, file: &[u8]) {
        // In place, as the worker does.
        let mut open =
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(self.path()).unwrap();
        open.write_all(file).unwrap();
    }

    pub(crate) fn remove(&self) {
        self.tree.remove("running");
    }

    /// A slot computes a unit of a job in this process.
    pub(crate) fn run(&mut self, slot: usize, (job, unit): (u64, u128), process: u32) {
        self.slots[slot].computes(JobId(job), unit);
        self.slots[slot].in_process(process);
        self.write();
    }

    pub(crate) fn ended(&mut self, slot: usize, cpu_us: u64) {
        self.slots[slot].ended(cpu_us);
        self.write();
    }
}

/// A `units` sensor that reads below `proc`, and this file.
pub(crate) fn units_at(proc: &Path, board: &Board) -> Bench {
    let mut bench = Bench::of(starfarm_agent::sensors::units::stage(proc));
    bench.set("running", &board.path()).unwrap();
    bench.set("farm", &FARM.to_string()).unwrap();
    bench
}
