//! A search on a device: its candidates launch by launch, its hits confirmed here.

use std::collections::BTreeMap;
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
/// Hits that a launch may report: as many as a run has candidates, so that a launch of one run never has more.
const HITS_MAX: u32 = 1 << 17;
const _: () = assert!(HITS_MAX > 1 << 16, "a launch of one run has room for all of its hits");

/// A search that runs on a device.
pub struct DeviceSearch {
    search: Search,
    session: Session,
    /// Candidates of a vector.
    width: usize,
    /// Combinations of the tail that a work item has.
    piece: u32,
    group: usize,
    /// By the length of candidates.
    programs: BTreeMap<usize, Loaded>,
    targets: Buffer<u32>,
    starts: Buffer<u32>,
    starts_shift: u32,
    bitmap: Buffer<u32>,
    bitmap_shift: u32,
    sieve: Buffer<u32>,
    sieve_mask: u32,
    hits: Buffer<u32>,
    alphabets: Buffer<u8>,
    prefix: Buffer<u32>,
    /// Candidates of the next launch.
    units: u64,
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
            programs: BTreeMap::new(),
            targets: session.buffer(&targets.words)?,
            starts: session.buffer(targets.starts)?,
            starts_shift: targets.starts_shift,
            bitmap: session.buffer(&halves(targets.bitmap))?,
            bitmap_shift: targets.bitmap_shift,
            sieve: session.buffer(&targets.sieve)?,
            sieve_mask: (targets.sieve.len() * 32 - 1) as u32,
            hits: session.empty(2 + 2 * HITS_MAX as usize)?,
            alphabets: session.buffer(&alphabets)?,
            prefix: session.empty(2 * search.alphabets().len().max(1))?,
            units: FIRST_UNITS,
            search,
            session,
        })
    }

    /// The search itself.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Compiles the program for the candidate of `unit` and those of its length, which may take seconds. The first unit
    /// behind these.
    ///
    /// # Errors
    /// The device's.
    pub fn prepare(&mut self, unit: u128) -> Result<u128, OpenClError> {
        let stretch = self.search.stretch(unit);
        if !self.programs.contains_key(&stretch.length) {
            let loaded = load(&self.session, &self.search, &stretch, self.width)?;
            // The first launch should take no longer than any.
            self.units = self.units.max(loaded.program.units.last().min(UNITS_MAX) / 2);
            self.programs.insert(stretch.length, loaded);
        }
        Ok(unit + stretch.units)
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
        let (mut next, mut found) = (lo, Vec::new());
        while next < end {
            let start = Instant::now();
            let Some(stop) = self.launch(next, end, &mut found)? else {
                // More hits than fit. Whatever lets one in two candidates pass ends at one run.
                self.units /= 2;
                continue;
            };
            found.sort_unstable();
            for unit in found.drain(..) {
                self.search.confirm(unit, hits);
            }
            let (spent, units) = (start.elapsed(), (stop - next) as u64);
            if spent < LAUNCH / 2 && units >= self.units {
                self.units = (self.units * 2).min(UNITS_MAX);
            } else if spent > LAUNCH * 2 {
                self.units = (self.units / 2).max(1);
            }
            if let Some(loaded) = self.programs.get_mut(&self.search.stretch(next).length) {
                loaded.program.units.ran(units, spent, LAUNCH);
            }
            next = stop;
            if next < end && !keep_going(Some(next)) {
                return Ok(next);
            }
        }
        Ok(hi.max(lo))
    }

    /// Launches the candidates from `lo` on; the first unit behind them, or none where there were too many hits.
    fn launch(&mut self, lo: u128, hi: u128, found: &mut Vec<u128>) -> Result<Option<u128>, OpenClError> {
        self.prepare(lo)?;
        let stretch = self.search.stretch(lo);
        let wanted = u128::from(self.units).min(stretch.units).min(hi - lo);
        let (tail, from) = (stretch.tail as u128, stretch.from as u128);
        // Whole runs, but where the interval begins or ends within one.
        let runs =
            (wanted + from).div_ceil(tail).min(u128::from(u32::MAX / 2) / tail.div_ceil(self.piece.into()));
        let stop = (lo + (runs * tail - from)).min(lo + stretch.units).min(hi);
        let pieces = stretch.tail.div_ceil(self.piece as usize) as u32;
        let items = runs as u32 * pieces;
        let prefix: Vec<u32> = stretch.prefix.iter().flatten().copied().collect();
        let loaded = &self.programs[&stretch.length];
        self.session.write(&mut self.prefix, &prefix)?;
        self.session.write(&mut self.hits, &[0, 0])?;
        let args = [
            Arg::U32(items),
            Arg::U32(stretch.tail as u32),
            Arg::U32(self.piece),
            Arg::U32(pieces),
            Arg::Words(&self.prefix),
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
            return Ok(None);
        }
        let mut pairs = vec![0; 2 + 2 * head[0] as usize];
        if head[0] > 0 {
            self.session.read(&self.hits, &mut pairs)?;
        }
        let first = lo - from;
        let units =
            pairs[2..].chunks_exact(2).map(|pair| first + u128::from(pair[0]) * tail + u128::from(pair[1]));
        found.extend(units.filter(|unit| (lo..stop).contains(unit)));
        Ok(Some(stop))
    }
}

fn load(
    session: &Session,
    search: &Search,
    stretch: &Stretch<'_>,
    width: usize,
) -> Result<Loaded, OpenClError> {
    let program = session.program(&search.program(stretch, width), "")?;
    let kernel = session.kernel_of(&program, "search")?;
    let stride = stretch.tables.first().map_or(0, Vec::len) as u32;
    Ok(Loaded { kernel, program, tables: session.buffer(&stretch.tables.concat())?, stride })
}
