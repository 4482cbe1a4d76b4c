//! `starfarm-chaos`: the proxy by hand, to try a farm over a bad network. Point a worker's join file at its
//! address.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use starfarm_chaos::{Direction, Faults, Proxy};

/// A bad network between workers and their scheduler, until Ctrl-C.
#[derive(Parser, Debug)]
#[command(name = "starfarm-chaos", version)]
struct Args {
    /// Where workers will connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where the scheduler listens
    #[arg(long, value_name = "ADDR")]
    scheduler: SocketAddr,
    /// The same seed does the same harm to the same datagrams
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of datagrams that are lost
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    loss: f64,
    /// Share that arrives twice
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    duplication: f64,
    /// All are so late
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    delay_ms: u64,
    /// And up to so much later: this reorders
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    jitter_ms: u64,
    /// Share that is later by up to --late-ms
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    late: f64,
    /// See --late
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=60_000))]
    late_ms: u64,
    /// Share that brings an old datagram along
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    replay: f64,
    /// Share that arrives damaged
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    corruption: f64,
    /// Lose all that are longer than this; 0: none
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    swallows_above: usize,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a share from 0 to 1, such as 0.2".to_owned()),
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("starfarm-chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let (stop, stopped) = std::sync::mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = stop.send(());
    })
    .map_err(|e| format!("cannot listen for Ctrl-C: {e}"))?;
    let proxy = Proxy::listen(args.listen, args.scheduler, args.seed)
        .map_err(|e| format!("cannot listen on {}: {e}; choose another --listen", args.listen))?;
    proxy.set_all_faults(Faults {
        loss: args.loss,
        duplication: args.duplication,
        delay_us: args.delay_ms * 1_000,
        jitter_us: args.jitter_ms * 1_000,
        late: args.late,
        late_us: args.late_ms * 1_000,
        replay: args.replay,
        corruption: args.corruption,
        swallows_above: args.swallows_above,
    });
    eprintln!("workers: write \"{}\" into the addresses of the join file; Ctrl-C ends this", proxy.address());
    // The sender lives in the signal handler, for ever.
    let _ = stopped.recv();
    println!("up:   {}", proxy.counters(Direction::Up));
    println!("down: {}", proxy.counters(Direction::Down));
    Ok(())
}
