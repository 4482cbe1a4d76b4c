//! The flags of `starfarm events`.

use clap::Args;

const EVENTS_EXAMPLES: &str = "\
Examples:
  starfarm events                      # the last thousand lines
  starfarm events --follow             # and what comes, until Ctrl-C
  starfarm events --follow --tasks     # tasks sent and back too, one by one
  starfarm events --output jsonl --follow --after 120";

/// `starfarm events`.
#[derive(Args, Debug)]
#[command(after_help = EVENTS_EXAMPLES)]
pub(crate) struct Events {
    /// Go on printing what happens, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// Tasks that are sent to nodes and come back, too, a line each; at most 200 a second, the rest is counted
    #[arg(long, requires = "follow")]
    pub(crate) tasks: bool,
    /// Only what has a number above this: to go on where an earlier call ended
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub(crate) after: u64,
}
