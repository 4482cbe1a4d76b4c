//! A search on a device: its candidates launch by launch, its hits confirmed here.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opencl3::kernel::Kernel;
use opencl3::memory::Buffer;
use starfarm_kernels::{Hit, Search, Stretch};
use starfarm_protocol::devices::DeviceKind;

use crate::device::Device;
use crate::error::OpenClError;
use crate::program::{Arg, Compiled, Keep, Session};

/// How long a launch should take: between two of them a search can be stopped.
const LAUNCH: Duration = Duration::from_millis(20);
/// Candidates of the first launch, and the most of any. A run has 65 536 at most, so that work items are counted by 32 bits.
const FIRST_UNITS: u64 = 1 << 20;
const UNITS_MAX: u64 = 1 << 36;
/// Launches that candidates may take which are not searched in their order: a stop loses what they have done.
const SWEEP_LAUNCHES: u128 = 16;
/// Hits that a launch may report: as many as a run has candidates, so that a launch of one run never has more.
const HITS_MAX: u32 = 1 << 17;
const _: () = assert!(HITS_MAX > 1 << 16, "a launch of one run has room for all of its hits");

/// A search that runs on a device.
pub struct DeviceSearch {
    search: Arc<Search>,
    session: Session,
    /// Candidates of a vector.
    width: usize,
    /// Combinations of the tail that a work item has.
    piece: u32,
    group: usize,
    /// By [`Stretch::kind`].
    programs: HashMap<(usize, Range<usize>), Loaded>,
    targets: Buffer<u32>,
    starts: Buffer<u32>,
    starts_shift: u32,
    bitmap: Buffer<u32>,
    bitmap_shift: u32,
    sieve: Buffer<u32>,
    sieve_mask: u32,
    hits: Buffer<u32>,
    alphabets: Buffer<u8>,
    digits: Buffer<u32>,
    /// Candidates of the next launch.
    units: u64,
    /// Most candidates that are not searched in their order.
    sweep_max: u128,
}

struct Loaded {
    kernel: Kernel,
    program: Compiled,
    tables: Buffer<u32>,
    stride: u32,
}

impl DeviceSearch {
    /// Sets a search up on a device.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &Device, search: Search) -> Result<Self, OpenClError> {
        let session = Session::open(device)?;
        let targets = search.device_targets();
        let halves = |bits: &[u64]| -> Vec<u32> {
            bits.iter().flat_map(|bits| [*bits as u32, (bits >> 32) as u32]).collect()
        };
        let mut alphabets = vec![0; 256 * search.alphabets().len()];
        for (bytes, alphabet) in alphabets.chunks_mut(256).zip(search.alphabets()) {
            bytes[..alphabet.len()].copy_from_slice(alphabet);
        }
        let (piece, group) = match device.facts().kind {
            DeviceKind::Cpu => (1 << 12, 1),
            DeviceKind::Gpu | DeviceKind::Accelerator => (1 << 8, 64),
        };
        Ok(Self {
            width: device.facts().width as usize,
            piece,
            group,
            programs: HashMap::new(),
            targets: session.buffer(&targets.words)?,
            starts: session.buffer(targets.starts)?,
            starts_shift: targets.starts_shift,
            bitmap: session.buffer(&halves(targets.bitmap))?,
            bitmap_shift: targets.bitmap_shift,
            sieve: session.buffer(&targets.sieve)?,
            sieve_mask: (targets.sieve.len() * 32 - 1) as u32,
            hits: session.empty(2 + 2 * HITS_MAX as usize)?,
            alphabets: session.buffer(&alphabets)?,
            digits: session.empty(2 * search.alphabets().len().max(1))?,
            units: FIRST_UNITS,
            sweep_max: u128::from(FIRST_UNITS) * SWEEP_LAUNCHES,
            search: Arc::new(search),
            session,
        })
    }

    /// The search itself.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Compiles the program for the unit `lo` and those behind it, which may take seconds. The end of the units that it
    /// serves, at most `hi`.
    ///
    /// # Errors
    /// The device's.
    pub fn prepare(&mut self, lo: u128, hi: u128) -> Result<u128, OpenClError> {
        self.sweep_max = u128::from(self.units) * SWEEP_LAUNCHES;
        let search = Arc::clone(&self.search);
        self.load(&search.stretch(lo, hi, 1, self.sweep_max))?;
        Ok(search.stretches_end(lo, hi, self.sweep_max))
    }

    /// Compiles the program of a stretch, if that was not done yet.
    fn load(&mut self, stretch: &Stretch<'_>) -> Result<(), OpenClError> {
        if !self.programs.contains_key(&stretch.kind()) {
            let program = self.session.program(&self.search.program(stretch, self.width), "")?;
            let kernel = self.session.kernel_of(&program, "search")?;
            let tables = self.session.buffer(&stretch.tables().concat())?;
            let stride = stretch.tables().first().map_or(0, Vec::len) as u32;
            // The first launch should take no longer than any.
            self.units = self.units.max(program.units.last().min(UNITS_MAX) / 2);
            self.programs.insert(stretch.kind(), Loaded { kernel, program, tables, stride });
        }
        Ok(())
    }

    /// What keeps in the device's cache what was compiled, where that is to be done: after a scan, and beside others.
    pub fn take_unkept(&mut self) -> Option<Keep> {
        let all: Vec<Keep> =
            self.programs.values_mut().filter_map(|loaded| loaded.program.take_unkept()).collect();
        (!all.is_empty()).then(|| Box::new(|| all.into_iter().for_each(|keep| keep())) as Keep)
    }

    /// Scans the units `[lo, hi)` as [`Search::scan`] does. `keep_going` is asked between launches, which take some 20 ms.
    ///
    /// # Errors
    /// The device's; what was found before is in `hits`, and the unit up to which that holds was given to `keep_going` last.
    pub fn scan(
        &mut self,
        lo: u128,
        hi: u128,
        hits: &mut Vec<Hit>,
        keep_going: &mut dyn FnMut(Option<u128>) -> bool,
    ) -> Result<u128, OpenClError> {
        let end = hi.min(self.search.units());
        let (search, mut next) = (Arc::clone(&self.search), lo);
        while next < end {
            let stretch = search.stretch(next, end, self.units.into(), self.sweep_max);
            self.load(&stretch)?;
            let (before, mut run) = (hits.len(), 0);
            while run < stretch.runs() {
                run += self.launch(&stretch, run, hits).inspect_err(|_| hits.truncate(before))?;
                if run < stretch.runs() && !keep_going(None) {
                    hits.truncate(before);
                    return Ok(next);
                }
            }
            hits[before..].sort_unstable();
            next = stretch.units().end;
            if next < end && !keep_going(Some(next)) {
                return Ok(next);
            }
        }
        Ok(hi.max(lo))
    }

    /// Launches runs of a stretch from `run` on, and finds what fits of a launch. How many they were; 0 where there were too
    /// many hits, so that fewer are to be launched.
    fn launch(&mut self, stretch: &Stretch<'_>, run: u128, hits: &mut Vec<Hit>) -> Result<u128, OpenClError> {
        let start = Instant::now();
        let pieces = stretch.tail().div_ceil(self.piece as usize) as u32;
        let most = (self.units / stretch.tail() as u64).clamp(1, u64::from(u32::MAX / 2 / pieces));
        let runs = (stretch.runs() - run).min(most.into());
        let items = runs as u32 * pieces;
        let digits: Vec<u32> = stretch.digits(run).into_iter().flatten().collect();
        let loaded = self.programs.get_mut(&stretch.kind()).expect("it was prepared");
        self.session.write(&mut self.digits, &digits)?;
        self.session.write(&mut self.hits, &[0, 0])?;
        let args = [
            Arg::U32(items),
            Arg::U32(stretch.tail() as u32),
            Arg::U32(self.piece),
            Arg::U32(pieces),
            Arg::Words(&self.digits),
            Arg::Bytes(&self.alphabets),
            Arg::Words(&loaded.tables),
            Arg::U32(loaded.stride),
            Arg::Words(&self.targets),
            Arg::Words(&self.starts),
            Arg::U32(self.starts_shift),
            Arg::Words(&self.bitmap),
            Arg::U32(self.bitmap_shift),
            Arg::Words(&self.sieve),
            Arg::U32(self.sieve_mask),
            Arg::Words(&self.hits),
            Arg::U32(HITS_MAX),
        ];
        self.session.launch(&loaded.kernel, &args, items as usize, self.group)?;
        let mut head = [0; 2];
        self.session.read(&self.hits, &mut head)?;
        if head[0] > HITS_MAX && runs > 1 {
            // Whatever lets one in two candidates pass ends at one run.
            self.units /= 2;
            return Ok(0);
        }
        let mut pairs = vec![0; 2 + 2 * head[0] as usize];
        if head[0] > 0 {
            self.session.read(&self.hits, &mut pairs)?;
        }
        for pair in pairs[2..].chunks_exact(2) {
            if stretch.combinations().contains(&(pair[1] as usize)) {
                self.search.confirm(stretch.unit(run + u128::from(pair[0]), pair[1] as usize), hits);
            }
        }
        let (spent, units) = (start.elapsed(), runs as u64 * stretch.combinations().len() as u64);
        loaded.program.units.ran(units, spent, LAUNCH);
        if spent < LAUNCH / 2 && units >= self.units / 2 {
            self.units = (self.units * 2).min(UNITS_MAX);
        } else if spent > LAUNCH * 2 {
            self.units = (self.units / 2).max(1);
        }
        Ok(runs)
    }
}
