//! A kernel of a user's own on a device: what is put before its text, its launches, and what becomes of the numbers that its
//! units leave. What a user reads of that is in `docs/kernels.md`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use opencl3::kernel::Kernel;
use opencl3::memory::Buffer;
use starfarm_protocol::report::{Best, Counted, Report, Value};
use starfarm_protocol::spec::{Counter, KernelWork, NumberType, Reduction};
use starfarm_protocol::units::Units;

use crate::device::Device;
use crate::error::OpenClError;
use crate::program::{Arg, Compiled, Keep, Session};

/// How long a launch should take: between two of them a job can be stopped.
const LAUNCH: Duration = Duration::from_millis(20);
/// Most units of a launch, and most bytes of their blocks.
const UNITS_MAX: u64 = 1 << 24;
const BLOCKS_BYTES_MAX: u64 = 4 << 20;
/// Work items of a group, where there are as many.
const GROUP: u64 = 64;
/// So many times as many units as the launch before one has at most: the first launches say little.
const GROWTH: u64 = 8;
/// Numbers that the device leaves of those of a launch; the rest is done here.
const LANES: usize = 1 << 12;

/// A kernel that runs on a device.
pub struct DeviceKernel {
    work: KernelWork,
    /// How many values each digit has, the first digit first.
    sizes: Vec<u128>,
    session: Session,
    kernel: Kernel,
    program: Compiled,
    base: Buffer<u64>,
    hits: Option<Buffer<u32>>,
    blocks: Option<Buffer<u8>>,
    counters: Vec<Counting>,
    /// Units that the buffers have room for.
    room: u64,
    /// Units of the next launch.
    units: u64,
}

/// A counter on the device.
struct Counting {
    name: String,
    counter: Counter,
    reduce: Kernel,
    values: Buffer<u8>,
    best: Buffer<u8>,
    at: Buffer<u64>,
}

/// What a launch left.
pub enum Left {
    /// The blocks of its units, one after another.
    Blocks(Vec<u8>),
    /// Hits and counters.
    Report(Report),
}

/// Has the compiler keep what the kernel's arguments are.
const ARG_INFO: &str = "-cl-kernel-arg-info";

impl DeviceKernel {
    /// Compiles a kernel for a device, which may take seconds.
    ///
    /// # Errors
    /// The device's, or the text cannot be compiled.
    pub fn new(device: &Device, work: KernelWork, sizes: Vec<u128>) -> Result<Self, OpenClError> {
        let mut session = Session::open(device)?;
        // What the compiler reads from elsewhere may be another text next time.
        if work.source.contains("include") {
            session = session.uncached();
        }
        let text = text(&work, &sizes);
        let options = match work.needs.opencl {
            // A version of the language for each of the platform: there is no OpenCL C 1.0 to ask for, nor 2.1 and 2.2.
            (0, _) | (1, 0) => ARG_INFO.to_owned(),
            (1, 1) => format!("{ARG_INFO} -cl-std=CL1.1"),
            (1, _) => format!("{ARG_INFO} -cl-std=CL1.2"),
            (2, _) => format!("{ARG_INFO} -cl-std=CL2.0"),
            _ => format!("{ARG_INFO} -cl-std=CL3.0"),
        };
        let program = session.program(&text, &options).map_err(|error| named(error, &work, &text))?;
        let kernel = session.kernel_of(&program, &work.kernel).map_err(|_| {
            OpenClError::Build(format!("{} has no kernel that is called `{}`", work.file, work.kernel))
        })?;
        check_arguments(&kernel, &work)?;
        let counting = |(name, counter): (&String, &Counter)| {
            let reduce = session.kernel_of(&program, &format!("starfarm_reduce_{name}"))?;
            let (values, best) = (session.empty(8)?, session.empty(LANES * 8)?);
            let at = session.empty(LANES)?;
            Ok(Counting { name: name.clone(), counter: *counter, reduce, values, best, at })
        };
        let counters = work.counters.iter().map(counting).collect::<Result<Vec<_>, OpenClError>>()?;
        let hits = (work.hits > 0).then(|| session.empty(1 + 2 * work.hits as usize)).transpose()?;
        let base = session.empty(sizes.len().max(1))?;
        // Units may differ in what they take: so much less, the second launch is as large.
        let units = (program.units.last().min(UNITS_MAX) / GROWTH).max(1);
        Ok(Self { work, sizes, session, kernel, program, base, hits, blocks: None, counters, room: 0, units })
    }

    /// What keeps in the device's cache what was compiled, where that is to be done: after a launch, and beside others.
    pub fn take_unkept(&mut self) -> Option<Keep> {
        self.program.take_unkept()
    }

    /// Units of the next launch from `lo` on, of which there are so many and no more are to be in one.
    pub fn next_units(&self, left: u128, most: Option<u64>) -> u64 {
        let blocks = BLOCKS_BYTES_MAX / self.work.block_bytes.max(1);
        let units = self.units.min(UNITS_MAX).min(blocks.max(1)).min(most.unwrap_or(u64::MAX));
        let units = u64::try_from(left).unwrap_or(u64::MAX).min(units).max(1);
        // Whole groups, and what is left alone: a driver may compile a kernel anew for each size of a group.
        if units < GROUP { units } else { units - units % GROUP }
    }

    /// Runs the kernel over units of which the first is `lo`. Where more hits were found than there is room for, of fewer
    /// units: how many they were.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&mut self, lo: u128, mut units: u64) -> Result<(u64, Left), OpenClError> {
        loop {
            let start = Instant::now();
            let left = self.try_launch(lo, units)?;
            let took = start.elapsed().max(Duration::from_micros(1));
            let Some(left) = left else {
                units = (units / 2).max(1);
                units -= if units < GROUP { 0 } else { units % GROUP };
                self.units = units;
                continue;
            };
            let fits = units as f64 * LAUNCH.as_secs_f64() / took.as_secs_f64();
            self.units = (fits as u64).clamp(1, units.saturating_mul(GROWTH)).min(UNITS_MAX);
            self.program.units.ran(units, took, LAUNCH);
            return Ok((units, left));
        }
    }

    fn make_room(&mut self, units: u64) -> Result<(), OpenClError> {
        if units <= self.room {
            return Ok(());
        }
        let room = units.next_power_of_two();
        if self.work.block_bytes > 0 {
            self.blocks = None;
            self.blocks = Some(self.session.empty((units * self.work.block_bytes) as usize)?);
            self.room = units;
            return Ok(());
        }
        for counting in &mut self.counters {
            counting.values = self.session.empty(8)?;
            counting.values = self.session.empty(room as usize * counting.counter.of.bytes())?;
        }
        self.room = room;
        Ok(())
    }

    /// None where there were too many hits.
    fn try_launch(&mut self, lo: u128, units: u64) -> Result<Option<Left>, OpenClError> {
        self.make_room(units)?;
        let mut rest = lo;
        let mut base: Vec<u64> = self
            .sizes
            .iter()
            .rev()
            .map(|size| {
                let digit = rest % size;
                rest /= size;
                digit as u64
            })
            .collect();
        base.reverse();
        self.session.write(&mut self.base, &base)?;
        if let Some(hits) = &mut self.hits {
            self.session.write(hits, &[0])?;
        }
        let mut args = vec![Arg::Longs(&self.base), Arg::U64(units)];
        args.extend(self.hits.as_ref().map(Arg::Words));
        args.extend(self.blocks.as_ref().map(Arg::Bytes));
        args.extend(self.counters.iter().map(|counting| Arg::Bytes(&counting.values)));
        self.session.launch(&self.kernel, &args, units as usize, group(units as usize))?;
        if let Some(blocks) = &self.blocks {
            let mut bytes = vec![0; (units * self.work.block_bytes) as usize];
            self.session.read(blocks, &mut bytes)?;
            return Ok(Some(Left::Blocks(bytes)));
        }
        let mut report = Report::default();
        if let Some(hits) = &self.hits {
            let mut head = [0];
            self.session.read(hits, &mut head)?;
            if head[0] > self.work.hits {
                let all = OpenClError::TooManyHits { hits: head[0], room: self.work.hits };
                return if units > 1 { Ok(None) } else { Err(all) };
            }
            let mut words = vec![0; 1 + 2 * head[0] as usize];
            self.session.read(hits, &mut words)?;
            // What names a unit beyond the launch is a slip of the kernel's.
            let pairs = words[1..].chunks_exact(2).filter(|pair| u64::from(pair[0]) < units);
            report.hits.extend(pairs.map(|pair| (Units(lo + u128::from(pair[0])), pair[1])));
            report.hits.sort_unstable();
            report.hits.dedup();
        }
        for counting in &self.counters {
            report.counters.insert(counting.name.clone(), counting.reduce(&self.session, lo, units)?);
        }
        Ok(Some(Left::Report(report)))
    }
}

/// What the kernel is given, in this order: the name of each, and its type where it must be that one.
fn arguments(work: &KernelWork) -> Vec<(&str, Option<String>)> {
    let mut given = vec![("base", Some("ulong*".to_owned())), ("count", Some("ulong".to_owned()))];
    given.extend((work.hits > 0).then(|| ("hits", Some("uint*".to_owned()))));
    given.extend((work.block_bytes > 0).then_some(("blocks", None)));
    let counters = work.counters.iter();
    given.extend(counters.map(|(name, counter)| (name.as_str(), Some(format!("{}*", counter.of.word())))));
    given
}

/// The kernel takes what it is given.
fn check_arguments(kernel: &Kernel, work: &KernelWork) -> Result<(), OpenClError> {
    let (given, KernelWork { file, kernel: name, .. }) = (arguments(work), work);
    let takes = kernel.num_args().map_err(OpenClError::of("tell of a kernel"))?;
    if takes as usize != given.len() {
        let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
        return Err(OpenClError::Build(format!(
            "{file}: `{name}` has {takes} arguments, and this job gives it {}: {}",
            given.len(),
            names.join(", ")
        )));
    }
    for (index, (argument, wanted)) in (0..).zip(given) {
        // Some drivers tell no types, and some none of a program from the cache.
        let (Some(wanted), Ok(told)) = (wanted, kernel.get_arg_type_name(index)) else { continue };
        if let Some(told) = plain_type(&told)
            && told != wanted
        {
            return Err(OpenClError::Build(format!(
                "{file}: argument {} of `{name}`, `{argument}`, has type {told}: this job gives it {wanted}",
                index + 1
            )));
        }
    }
    Ok(())
}

/// A number's type, or that of a pointer to numbers, as OpenCL C writes it in short; none where it is another.
fn plain_type(told: &str) -> Option<String> {
    let told = told.trim_end_matches('\0').replace("unsigned ", "u").replace(' ', "");
    let of = told.trim_end_matches('*');
    let known = ["char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"];
    known.contains(&of).then_some(told)
}

/// The size of groups of so many work items.
fn group(items: usize) -> usize {
    if items.is_multiple_of(GROUP as usize) { GROUP as usize } else { 1 }
}

impl Counting {
    /// What became of the numbers of a launch.
    fn reduce(&self, session: &Session, lo: u128, units: u64) -> Result<Counted, OpenClError> {
        let lanes = (units as usize).min(LANES);
        let args = [Arg::Bytes(&self.values), Arg::U64(units), Arg::Bytes(&self.best), Arg::Longs(&self.at)];
        session.launch(&self.reduce, &args, lanes, group(lanes))?;
        let (mut bytes, mut at) = (vec![0; lanes * self.counter.of.bytes()], vec![0; lanes]);
        session.read(&self.best, &mut bytes)?;
        session.read(&self.at, &mut at)?;
        let values = bytes.chunks_exact(self.counter.of.bytes()).map(|bytes| value(self.counter.of, bytes));
        let counted = values.zip(at).map(|(value, at): (Value, u64)| {
            let best = Best { value, unit: Units(lo + u128::from(at)) };
            match self.counter.reduce {
                Reduction::Sum => Counted::Sum(value),
                Reduction::Min => Counted::Min(best),
                Reduction::Max => Counted::Max(best),
            }
        });
        let all = counted.map(Ok).reduce(|one, other| one?.with(other?));
        all.expect("a launch has units").map_err(|why| OpenClError::Call("add up", why))
    }
}

fn value(of: NumberType, bytes: &[u8]) -> Value {
    let eight = || bytes.try_into().expect("eight bytes");
    match of {
        NumberType::Long => Value::Whole(i64::from_ne_bytes(eight()).into()),
        NumberType::Ulong => Value::Whole(u64::from_ne_bytes(eight()).into()),
        NumberType::Double => Value::Real(f64::from_ne_bytes(eight())),
        NumberType::Float => Value::Real(f32::from_ne_bytes(bytes.try_into().expect("four bytes")).into()),
    }
}

/// The whole program: what reduces a user's numbers and what that text may use, then the text under its own name. Its constants
/// come last before it: they may be called as what we use is.
fn text(work: &KernelWork, sizes: &[u128]) -> String {
    let mut text = String::new();
    // A String takes whatever is written to it.
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    line("#define STARFARM 1".to_owned());
    line(format!("#define BLOCK {}", work.block_bytes));
    line(format!("#define HITS {}", work.hits));
    line(format!("#define DIGITS {}", sizes.len()));
    let list: Vec<String> = sizes.iter().map(|size| format!("{size}UL")).collect();
    line(format!("__constant ulong SIZES[DIGITS] = {{{}}};", list.join(", ")));
    line(include_str!("../cl/before.cl").to_owned());
    for (name, Counter { reduce, of }) in &work.counters {
        let (kind, word) = (of.word(), reduce.word().to_uppercase());
        line(format!("STARFARM_{word}({kind}, starfarm_reduce_{name})"));
    }
    for (name, value) in &work.constants {
        line(format!("#define {name} {value}"));
    }
    line(format!("{}{}", start(work), work.source));
    text
}

/// What stands before the user's text.
fn start(work: &KernelWork) -> String {
    format!("#line 1 \"{}\"\n", work.file)
}

/// What the compiler said of the user's text, with the lines that it means. `text` is the whole program.
fn named(error: OpenClError, work: &KernelWork, text: &str) -> OpenClError {
    let OpenClError::Build(log) = error else { return error };
    let lines: Vec<&str> = work.source.lines().collect();
    let before = text.find(&start(work)).map_or(0, |at| text[..at].lines().count() + 1);
    let mut said = String::new();
    for line in log.lines().filter(|line| !line.trim().is_empty()) {
        let line = &in_its_file(line, work, before, lines.len());
        let _ = writeln!(said, "{line}");
        let place = line.split_once(&format!("{}:", work.file)).map(|(_, rest)| rest);
        let number = place.and_then(|rest| rest.split([':', ')', ' ']).next()?.parse::<usize>().ok());
        let source = number.and_then(|number| lines.get(number.checked_sub(1)?));
        if let Some(source) = source.filter(|source| !log.contains(source.trim())) {
            let _ = writeln!(said, "    {}", source.trim());
        }
    }
    OpenClError::Build(said)
}

/// A line of a compiler that counts the lines of the whole program, as NVIDIA's does (`<kernel>:70:14: error`), with the file
/// and line that it means. So many lines come before those of the user's text.
fn in_its_file(line: &str, work: &KernelWork, before: usize, lines: usize) -> String {
    let mut parts = line.splitn(3, ':');
    let (name, number) = (parts.next(), parts.next().and_then(|number| number.parse::<usize>().ok()));
    let is_place = name.is_some_and(|name| !name.contains(' ') && name != work.file);
    match (number.and_then(|number| number.checked_sub(before)), parts.next()) {
        (Some(number), Some(rest)) if is_place && (1..=lines).contains(&number) => {
            format!("{}:{number}:{rest}", work.file)
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use starfarm_protocol::devices::DeviceNeeds;

    fn work() -> KernelWork {
        KernelWork {
            source: "line one\n  int x = y;\n".into(),
            file: "a.cl".into(),
            kernel: "k".into(),
            constants: [("WIDTH".to_owned(), "7".to_owned())].into(),
            block_bytes: 0,
            hits: 3,
            counters: [("best".to_owned(), Counter::parse("min double").unwrap())].into(),
            needs: DeviceNeeds::ANY,
            launch_ms: 5_000,
            retries: 0,
            merge: None,
        }
    }

    #[test]
    fn a_users_text_keeps_its_name_and_its_lines() {
        let text = text(&work(), &[10, 20]);
        for part in [
            "#define HITS 3\n",
            "SIZES[DIGITS] = {10UL, 20UL};\n",
            "STARFARM_MIN(double, starfarm_reduce_best)\n",
            "#define WIDTH 7\n#line 1 \"a.cl\"\nline one\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_type_is_known_however_it_is_written() {
        for (told, known) in [
            ("ulong*", Some("ulong*")),
            ("unsigned long *\0", Some("ulong*")),
            ("uint", Some("uint")),
            ("size_t", None),
            ("float4*", None),
            ("mine*", None),
        ] {
            assert_eq!(plain_type(told).as_deref(), known, "{told}");
        }
    }

    #[test]
    fn an_error_has_its_line() {
        let whole = text(&work(), &[10]);
        let said = |log: &str| named(OpenClError::Build(log.into()), &work(), &whole).to_string();
        let text = said("error: a.cl:2:11: use of undeclared identifier 'y'\n");
        assert!(text.ends_with("a.cl:2:11: use of undeclared identifier 'y'\n    int x = y;"), "{text}");
        let twice = said("a.cl:2:11: error\n  int x = y;\n          ^\n");
        assert_eq!(twice.matches("int x = y;").count(), 1, "{twice}");
        assert!(said("a.cl:99: error").ends_with("a.cl:99: error"));
        let line = whole.lines().position(|line| line.contains("int x = y")).unwrap() + 1;
        let text = said(&format!("<kernel>:{line}:11: error: use of undeclared identifier 'y'"));
        assert!(
            text.ends_with("a.cl:2:11: error: use of undeclared identifier 'y'\n    int x = y;"),
            "{text}"
        );
        let ours = format!("<kernel>:{}:1: warning", line - 2);
        assert!(said(&ours).ends_with(&ours));
    }
}
