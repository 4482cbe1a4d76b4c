//! A program that is compiled for a device, the buffers that it works on, and its launches. Each call is over when it
//! returns. All unsafe code of the crate is here; what makes it sound is that a launch is given exactly the arguments of the
//! kernel's text, buffers among them that are long enough for what the text does.

use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_int};

use starfarm_protocol::devices::DeviceKind;

use crate::cache::{Cache, KeptUnits, Key};
use crate::device::{Device, Tell};
use crate::error::OpenClError;

/// A device that is in use.
pub(crate) struct Session {
    context: Context,
    queue: CommandQueue,
    /// Where its programs are kept, and the names of the device.
    cache: Option<(Arc<Cache>, Vec<String>)>,
    /// Hears of what it compiles for a launch; none where all is compiled when a program is.
    compiles: Option<Tell>,
}

/// A program that can be run.
pub(crate) struct Compiled {
    program: Arc<Program>,
    /// How large its launches were last.
    pub(crate) units: KeptUnits,
    /// Where it is to be kept, until it is.
    new: Option<(Arc<Cache>, Key)>,
}

impl Compiled {
    /// What keeps it, once, where it was compiled by this process. To be done after its first launches, and beside what the
    /// device does then: to be asked for it PoCL compiles it once more, and what it has compiled for a launch by then is in
    /// it.
    pub(crate) fn take_unkept(&mut self) -> Option<Keep> {
        let (cache, key) = self.new.take()?;
        let program = Arc::clone(&self.program);
        Some(Box::new(move || {
            // Some drivers give none.
            if let [binary] = program.get_binaries().unwrap_or_default().as_slice() {
                cache.keep(key, binary);
            }
        }))
    }
}

/// Runs a program of ours on a device, to see that it works at all.
///
/// # Errors
/// The device's.
pub fn check(device: &Device) -> Result<(), OpenClError> {
    let session = Session::open(device)?.uncached();
    let program = session.program("__kernel void check(__global uint *one) { *one = 1; }", "")?;
    let mut one = [0];
    let buffer = session.buffer(&one)?;
    session.launch(&session.kernel_of(&program, "check")?, &[Arg::Words(&buffer)], 1, 1)?;
    session.read(&buffer, &mut one)?;
    match one {
        [1] => Ok(()),
        [other] => Err(OpenClError::Call("compute", format!("1 came out as {other}"))),
    }
}

/// What keeps a program, and may take minutes.
pub type Keep = Box<dyn FnOnce() + Send>;

/// A launch that does not run after so long is compiled for, or waits for what is.
const COMPILES: Duration = Duration::from_millis(50);
/// How often that is looked at: at first so often, then ever less until this.
const FIRST_LOOK: Duration = Duration::from_micros(20);
const LOOK: Duration = Duration::from_millis(1);
/// `CL_RUNNING`: it runs; a launch with a lesser status has come to its end, one with a greater one waits.
const RUNNING: cl_int = 1;

/// Whatever bits are one of these.
pub(crate) trait Number: Copy + Default {}
impl Number for u8 {}
impl Number for u32 {}
impl Number for u64 {}

/// A value that a kernel is given.
pub(crate) enum Arg<'a> {
    /// A number.
    U32(u32),
    /// A long one.
    U64(u64),
    /// A buffer of numbers.
    Words(&'a Buffer<u32>),
    /// A buffer of long ones.
    Longs(&'a Buffer<u64>),
    /// A buffer of bytes.
    Bytes(&'a Buffer<u8>),
}

impl Session {
    /// Takes a device into use.
    pub(crate) fn open(device: &Device) -> Result<Self, OpenClError> {
        let context = Context::from_device(&device.device).map_err(OpenClError::of("start"))?;
        let queue = CommandQueue::create_default(&context, 0).map_err(OpenClError::of("start"))?;
        let cache = device.cache.as_ref().map(|cache| (Arc::clone(cache), device.names()));
        // Drivers of cards compile a program as a whole; PoCL does so for the size of its groups, at the first launch with it.
        let compiles = device.tell.clone().filter(|_| device.facts().kind == DeviceKind::Cpu);
        Ok(Self { context, queue, cache, compiles })
    }

    /// The same, and what it compiles is not kept.
    pub(crate) fn uncached(self) -> Self {
        Self { cache: None, ..self }
    }

    /// Takes a program from the cache, or compiles it.
    pub(crate) fn program(&self, source: &str, options: &str) -> Result<Compiled, OpenClError> {
        let compile = || {
            let built = Program::create_and_build_from_source(&self.context, source, options);
            // The crate puts its own words before the compiler's.
            built
                .map_err(|said| match said.split_once("build log: ") {
                    Some((_, log)) => OpenClError::Build(log.to_owned()),
                    None => OpenClError::Build(said),
                })
                .map(Arc::new)
        };
        let Some((cache, device)) = &self.cache else {
            return Ok(Compiled { program: compile()?, units: KeptUnits::default(), new: None });
        };
        let key = Key::of(device, options, source);
        // Exactly one: of more the crate would hand over what are no addresses.
        let load = |kept: Vec<u8>| {
            Program::create_and_build_from_binary(&self.context, &[kept.as_slice()], options).ok()
        };
        let units = KeptUnits::of(cache, key);
        if let Some(program) = cache.take(key).and_then(load) {
            cache.give_back(key);
            return Ok(Compiled { program: Arc::new(program), units, new: None });
        }
        Ok(Compiled { program: compile()?, units, new: Some((Arc::clone(cache), key)) })
    }

    /// Takes the kernel of that name.
    pub(crate) fn kernel_of(&self, program: &Compiled, name: &str) -> Result<Kernel, OpenClError> {
        Kernel::create(&program.program, name).map_err(OpenClError::of("load a kernel"))
    }

    /// A buffer with these values, or, where there are none, of one that nobody reads.
    pub(crate) fn buffer<T: Copy + Default>(&self, values: &[T]) -> Result<Buffer<T>, OpenClError> {
        let mut buffer = self.empty(values.len().max(1))?;
        self.write(&mut buffer, values)?;
        Ok(buffer)
    }

    /// A buffer of so many values, of which nothing is known.
    pub(crate) fn empty<T>(&self, values: usize) -> Result<Buffer<T>, OpenClError> {
        // SAFETY: no memory of ours is named.
        let buffer = unsafe { Buffer::create(&self.context, CL_MEM_READ_WRITE, values, ptr::null_mut()) };
        buffer.map_err(OpenClError::of("give memory"))
    }

    /// Writes values to the buffer's start; it has as many at least.
    pub(crate) fn write<T>(&self, buffer: &mut Buffer<T>, values: &[T]) -> Result<(), OpenClError> {
        if values.is_empty() {
            return Ok(());
        }
        // SAFETY: the call is over when it returns, so that `values` outlives it; the device checks the length.
        let written = unsafe { self.queue.enqueue_write_buffer(buffer, CL_BLOCKING, 0, values, &[]) };
        written.map(drop).map_err(OpenClError::of("take data"))
    }

    /// Reads values from the buffer's start.
    pub(crate) fn read<T: Number>(&self, buffer: &Buffer<T>, values: &mut [T]) -> Result<(), OpenClError> {
        // SAFETY: as in `write`; any bits are a number.
        let read = unsafe { self.queue.enqueue_read_buffer(buffer, CL_BLOCKING, 0, values, &[]) };
        read.map(drop).map_err(OpenClError::of("give data"))
    }

    /// Runs a kernel over `items` work items in groups of `group`, of which the last one is filled up, and waits for its end.
    /// The caller answers for the arguments: they are those of the kernel's text.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel,
        args: &[Arg<'_>],
        items: usize,
        group: usize,
    ) -> Result<(), OpenClError> {
        for (index, arg) in (0..).zip(args) {
            // SAFETY: the device checks number and size; that a buffer is one the context keeps alive.
            let set = unsafe {
                match arg {
                    Arg::U32(value) => kernel.set_arg(index, value),
                    Arg::U64(value) => kernel.set_arg(index, value),
                    Arg::Longs(buffer) => kernel.set_arg(index, &buffer.get()),
                    Arg::Words(buffer) => kernel.set_arg(index, &buffer.get()),
                    Arg::Bytes(buffer) => kernel.set_arg(index, &buffer.get()),
                }
            };
            set.map_err(OpenClError::of("take an argument"))?;
        }
        let (items, group) = ([items.next_multiple_of(group)], [group]);
        // SAFETY: one dimension, and arrays of one size each that outlive the call.
        let launched = unsafe {
            self.queue.enqueue_nd_range_kernel(
                kernel.get(),
                1,
                ptr::null(),
                items.as_ptr(),
                group.as_ptr(),
                &[],
            )
        };
        let event = launched.map_err(OpenClError::of("start a kernel"))?;
        let status = || event.command_execution_status().map(|status| status.0);
        if let Some(Tell(compiles)) = &self.compiles {
            self.queue.flush().map_err(OpenClError::of("start a kernel"))?;
            let (start, mut look, mut told) = (Instant::now(), FIRST_LOOK, false);
            while status().is_ok_and(|status| status > RUNNING) {
                if !told && start.elapsed() > COMPILES {
                    (told, look) = (true, LOOK);
                    compiles(true);
                }
                std::thread::sleep(look);
                look = LOOK.min(look * 2);
            }
            if told {
                compiles(false);
            }
        }
        event.wait().map_err(OpenClError::of("end a kernel"))?;
        match status().map_err(OpenClError::of("end a kernel"))? {
            0 => Ok(()),
            error => Err(OpenClError::of("run a kernel")(error.into())),
        }
    }
}
