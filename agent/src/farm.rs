//! The stages of the whole farm, which each back end has beside its own: from the file `monitor.toml` that somebody has loaded.
//! They are of types that are compiled in and touch nothing outside the agent: no files, programs, modules or ports.

use std::path::Path;

use starfarm_agent_core::Runtime;
use starfarm_agent_core::config::{Applied, At, Wrong};
use starfarm_protocol::link::{Asked, Control, Message, Piece, Pieces};
use starfarm_protocol::orders::PostId;

use crate::file::{self, FileError};
use crate::graph;
use crate::own::{check_name, scratch};
use crate::words::OwnFile;

/// Bytes of the farm's file, at most.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Stages of the farm, at most.
const STAGES_MAX: usize = 256;

/// Checks the farm's file, whole.
///
/// # Errors
/// No agent can do what it says; where, and why.
pub fn check_farm_file(name: &str, text: &str) -> Result<(), FileError> {
    let wrong = |wrong| FileError::at(name, text, wrong);
    apply(text, &mut scratch(), 0).map(drop).map_err(wrong)
}

/// Makes all of it of a graph, or nothing.
fn apply(text: &str, runtime: &mut Runtime, now_us: u64) -> Result<Applied, Wrong> {
    if text.len() > FILE_BYTES_MAX {
        return Err(Wrong { at: 0, why: format!("a farm's file has {FILE_BYTES_MAX} bytes at most") });
    }
    let said = file::read(text, Path::new(""))?;
    if let Some(At(at, _)) = said.libraries.first() {
        let why = "a farm's file names no file: modules that are files stand in a node's own".to_owned();
        return Err(Wrong { at: *at, why });
    }
    if let Some(service) = said.services.first() {
        let why = "a farm's file names no program: services stand in a node's own file".to_owned();
        return Err(Wrong { at: service.name.0, why });
    }
    said.config.check_modules(&graph::modules())?;
    for stage in &said.config.stages {
        let At(at, type_name) = &stage.type_name;
        if !graph::FROM_AFAR.contains(&type_name.as_str()) {
            let why = format!(
                "the type `{type_name}` cannot be had from afar: it names files, ports or programs, or is none; write one of {}",
                graph::FROM_AFAR.map(|name| format!("`{name}`")).join(", ")
            );
            return Err(Wrong { at: *at, why });
        }
    }
    if let Some(stage) = said.config.stages.get(STAGES_MAX) {
        return Err(Wrong { at: stage.name.0, why: format!("a farm has {STAGES_MAX} stages at most") });
    }
    let stages = said.config.stages.iter().map(|stage| &stage.name);
    stages.chain(said.config.timers.iter().map(|timer| &timer.name)).try_for_each(check_name)?;
    said.config.apply(runtime, now_us)
}

/// The farm's file as a post has heard it.
#[derive(Default)]
pub(crate) struct Farm {
    pieces: Pieces,
    /// The number and text of what came whole last.
    whole: Option<(u64, Vec<u8>)>,
    /// What is in force of it, by its number.
    applied: Applied,
}

impl Farm {
    /// A piece has come; whether that makes a file whole that was not heard before.
    pub(crate) fn take(&mut self, piece: &Piece<'_>) -> bool {
        let Some(whole) = self.pieces.take(piece) else { return false };
        let is_new = self.whole.as_ref().is_none_or(|(number, _)| *number != piece.number);
        self.whole = Some((piece.number, whole));
        is_new
    }

    /// What those below are told of it.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        let pieces = self.whole.iter().flat_map(|(number, whole)| Piece::all(*number, whole));
        pieces.map(|piece| Message::Control(Control { post: PostId::ALL, asked: Asked::Load as u8, piece }))
    }

    /// Puts it in force in place of the one before, and of what orders from afar have made, beside a node's own. One that this node cannot have changes nothing.
    pub(crate) fn apply(&mut self, runtime: &mut Runtime, own: Option<&OwnFile>, now_us: u64) {
        let Some((_, whole)) = &self.whole else { return };
        let Ok(text) = std::str::from_utf8(whole) else { return };
        let tried = {
            let mut runtime = scratch();
            // That the own file fits was said when it was taken.
            let _ = own.map(|own| own.add_to(&mut runtime));
            apply(text, &mut runtime, 0)
        };
        if let Err(wrong) = tried {
            let why = FileError::at("monitor.toml", text, wrong);
            starfarm_net::say(&format!("starfarm-agent: nothing of the farm's file is in force here: {why}"));
            return;
        }
        std::mem::take(&mut self.applied).end(runtime, now_us);
        runtime.take_back();
        self.applied = apply(text, runtime, now_us).unwrap_or_else(|wrong| {
            // A `control` of the node's own file has made something of that name.
            let why = FileError::at("monitor.toml", text, wrong);
            starfarm_net::say(&format!("starfarm-agent: nothing of the farm's file is in force here: {why}"));
            Applied::default()
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use starfarm_agent_core::Order;

    use super::*;

    const SLOW: &str =
        "[[stage]]\nname = \"slow\"\ntype = \"rate\"\n[[edge]]\nfrom = \"cpuload.out\"\nto = \"slow.in\"\n";

    fn load(farm: &mut Farm, runtime: &mut Runtime, number: u64, text: &str) -> Vec<String> {
        for piece in Piece::all(number, text.as_bytes()) {
            if farm.take(&piece) {
                farm.apply(runtime, None, 0);
            }
        }
        let before: Vec<_> =
            scratch().stages().into_iter().map(|(_, name, _)| name.map(str::to_owned)).collect();
        let stages = runtime.stages().into_iter().map(|(_, name, _)| name.map(str::to_owned));
        stages.filter(|name| !before.contains(name)).flatten().collect()
    }

    #[test]
    fn a_file_replaces_the_one_before_and_one_that_is_half_right_does_not() {
        let (mut farm, mut runtime) = (Farm::default(), scratch());
        let edges = runtime.edges().len();
        assert_eq!(load(&mut farm, &mut runtime, 1, SLOW), ["slow"]);
        assert_eq!(runtime.edges().len(), edges + 1);
        let half = format!("{SLOW}[[stage]]\nname = \"bad\"\ntype = \"colour\"\n");
        assert_eq!(load(&mut farm, &mut runtime, 2, &half), ["slow"]);
        let long = format!("# {}\n{}", "x".repeat(20_000), SLOW.replace("slow", "other"));
        assert_eq!(load(&mut farm, &mut runtime, 3, &long), ["other"]);
        assert_eq!(farm.messages().count(), 3);
        // What an order has made of the same name gives way.
        for line in ["create slow rate", "timer slow every 1"] {
            runtime.order(line.parse::<Order>().unwrap().as_guest(), 0).unwrap();
        }
        let timed = format!("{SLOW}[[timer]]\nname = \"slow\"\nevery = 5\n");
        assert_eq!(load(&mut farm, &mut runtime, 4, &timed), ["slow"]);
        assert_eq!(
            runtime.timers().iter().map(|timer| timer.period_us).collect::<Vec<_>>(),
            [Some(5_000_000)]
        );
        assert_eq!(load(&mut farm, &mut runtime, 5, ""), [] as [&str; 0]);
        assert_eq!(runtime.edges().len(), edges);
    }

    #[test]
    fn nothing_that_touches_the_machine_can_be_had_from_afar() {
        let types: Vec<_> =
            graph::modules().iter().flat_map(|module| module.types).map(|of| of.name).collect();
        assert!(graph::FROM_AFAR.iter().all(|name| types.contains(name)));
        // Whoever adds a type has to say which it is: one of these touches what is outside the agent.
        let others: Vec<_> = types.iter().copied().filter(|name| !graph::FROM_AFAR.contains(name)).collect();
        assert_eq!(
            others,
            [
                "accelerators",
                "health",
                "units",
                "udp_receive",
                "udp_send",
                "print",
                "journal",
                "line",
                "run",
                "program"
            ]
        );
        let refused = |text: &str| check_farm_file("monitor.toml", text).unwrap_err().to_string();
        for (text, why) in [
            (
                "[[stage]]\nname = \"u\"\ntype = \"units\"\nset = { running = \"/etc/passwd\" }\n",
                "monitor.toml:3:8: the type `units` cannot be had from afar",
            ),
            ("modules = [\"./libpower.so\"]\n", "monitor.toml:1:12: a farm's file names no file"),
            (
                "[[service]]\nname = \"s\"\nprogram = [\"true\"]\n",
                "monitor.toml:2:8: a farm's file names no program",
            ),
        ] {
            assert!(refused(text).starts_with(why), "{}", refused(text));
        }
        for of in ["print", "journal", "line", "run", "udp_send", "udp_receive", "program", "health"] {
            assert!(types.contains(&of), "{of}");
            let text = format!("[[stage]]\nname = \"x\"\ntype = \"{of}\"\n");
            let why = format!("monitor.toml:3:8: the type `{of}` cannot be had from afar: it names files");
            assert!(refused(&text).starts_with(&why), "{}", refused(&text));
        }
        assert_eq!(check_farm_file("monitor.toml", SLOW), Ok(()));
        assert!(refused(&"#".repeat(FILE_BYTES_MAX + 1)).contains("bytes at most"));
    }
}
