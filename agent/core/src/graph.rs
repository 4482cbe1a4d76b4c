//! Stages, their names and the edges between them: the only code that changes these. An edge leads from an output to an
//! input; there is no way back to where one came from.

use std::collections::{BTreeMap, HashMap};

use crate::refusal::{EDGES_MAX, HOOKS_MAX, NAME_BYTES_MAX, Refusal, SETTINGS_MAX, STAGES_MAX};
use crate::stage::Stage;
use crate::words::{Hook, Maker, Side, StageNumber};

/// One end of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) slot: usize,
    pub(crate) port: usize,
}

/// The hooks on one side of a stage.
#[derive(Default)]
struct Hooks {
    names: Vec<String>,
    /// Of each hook, the other ends of its edges.
    edges: Vec<Vec<End>>,
}

impl Hooks {
    /// One without edges has no name any more.
    fn port(&self, name: &str) -> Option<usize> {
        let mut known = self.names.iter().zip(&self.edges);
        known.position(|(known, edges)| known == name && !edges.is_empty())
    }
}

struct Entry {
    number: StageNumber,
    name: Option<String>,
    type_name: &'static str,
    maker: Maker,
    /// What it was told, and took.
    settings: BTreeMap<String, String>,
    /// None while it is asked something.
    stage: Option<Box<dyn Stage>>,
    inputs: Hooks,
    outputs: Hooks,
}

impl Entry {
    fn side(&mut self, side: Side) -> &mut Hooks {
        match side {
            Side::Input => &mut self.inputs,
            Side::Output => &mut self.outputs,
        }
    }
}

/// All stages of an agent.
#[derive(Default)]
pub(crate) struct Graph {
    /// Places; those of stages that have ended are used again.
    slots: Vec<Option<Entry>>,
    free: Vec<usize>,
    by_number: HashMap<StageNumber, usize>,
    by_name: BTreeMap<String, StageNumber>,
    last: u64,
    /// Stages that are not the agent's own.
    guests: usize,
}

impl Graph {
    pub(crate) fn add(
        &mut self,
        type_name: &'static str,
        stage: Box<dyn Stage>,
        name: Option<&str>,
        maker: Maker,
    ) -> Result<StageNumber, Refusal> {
        // Whatever others have, there is room for those that the agent needs.
        if maker != Maker::Agent && self.guests == STAGES_MAX {
            return Err(Refusal::TooManyStages);
        }
        name.map(|name| self.check_free(name)).transpose()?;
        self.last += 1;
        let number = StageNumber(self.last);
        let (inputs, outputs) = (Hooks::default(), Hooks::default());
        let name = name.map(str::to_owned);
        if let Some(name) = &name {
            self.by_name.insert(name.clone(), number);
        }
        self.guests += usize::from(maker != Maker::Agent);
        let (settings, stage) = (BTreeMap::new(), Some(stage));
        let entry = Entry { number, name, type_name, maker, settings, stage, inputs, outputs };
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(entry);
        self.by_number.insert(number, slot);
        Ok(number)
    }

    fn check_free(&self, name: &str) -> Result<(), Refusal> {
        check_name(name)?;
        if self.by_name.contains_key(name) { Err(Refusal::NameTaken(name.to_owned())) } else { Ok(()) }
    }

    /// Names a stage, or gives it another name.
    pub(crate) fn name(&mut self, number: StageNumber, name: &str) -> Result<(), Refusal> {
        let slot = self.slot(number)?;
        self.check_free(name)?;
        if let Some(before) = self.entry(slot).name.replace(name.to_owned()) {
            self.by_name.remove(&before);
        }
        self.by_name.insert(name.to_owned(), number);
        Ok(())
    }

    pub(crate) fn named(&self, name: &str) -> Option<StageNumber> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn slot(&self, number: StageNumber) -> Result<usize, Refusal> {
        self.by_number.get(&number).copied().ok_or_else(|| Refusal::NoStage(number.0.to_string()))
    }

    fn entry(&mut self, slot: usize) -> &mut Entry {
        self.slots[slot].as_mut().expect("a number or an edge leads to a stage that is there")
    }

    /// Its type, if it is not the agent's own.
    pub(crate) fn lent(&self, slot: usize) -> Option<&'static str> {
        let entry = self.slots.get(slot)?.as_ref()?;
        (entry.maker != Maker::Agent).then_some(entry.type_name)
    }

    /// Those that it has had made.
    pub(crate) fn made_by(&self, maker: Maker) -> Vec<StageNumber> {
        let made = self.slots.iter().flatten().filter(|entry| entry.maker == maker);
        made.map(|entry| entry.number).collect()
    }

    /// Notes what a stage was told, and took.
    pub(crate) fn note(&mut self, slot: usize, key: &str, value: &str) {
        let settings = &mut self.entry(slot).settings;
        if settings.len() < SETTINGS_MAX || settings.contains_key(key) {
            settings.insert(key.to_owned(), value.to_owned());
        }
    }

    /// What a stage was told, and took.
    pub(crate) fn settings(&self, slot: usize) -> Option<&BTreeMap<String, String>> {
        Some(&self.slots.get(slot)?.as_ref()?.settings)
    }

    /// Ends a stage; its edges go with it.
    pub(crate) fn remove(&mut self, number: StageNumber) -> Result<(), Refusal> {
        let slot = self.slot(number)?;
        for (side, other) in [(Side::Input, Side::Output), (Side::Output, Side::Input)] {
            let hooks = std::mem::take(self.entry(slot).side(side));
            for (port, ends) in hooks.edges.iter().enumerate() {
                for end in ends {
                    self.drop_end(*end, other, End { slot, port });
                }
            }
        }
        self.by_number.remove(&number);
        if let Some(entry) = self.slots[slot].take() {
            self.guests -= usize::from(entry.maker != Maker::Agent);
            if let Some(name) = entry.name {
                self.by_name.remove(&name);
            }
        }
        self.free.push(slot);
        Ok(())
    }

    /// Takes an edge from one of its ends; the stage there hears of it where that was its hook's last.
    fn drop_end(&mut self, at: End, side: Side, other: End) -> bool {
        let entry = self.entry(at.slot);
        let hooks = entry.side(side);
        let edges = &mut hooks.edges[at.port];
        let before = edges.len();
        edges.retain(|end| *end != other);
        let found = edges.len() < before;
        if found && edges.is_empty() {
            let name = hooks.names[at.port].clone();
            if let Some(stage) = &mut entry.stage {
                stage.edge_gone(Hook { side, name: &name, port: at.port });
            }
        }
        found
    }

    /// Makes an edge from an output of one stage to an input of another.
    pub(crate) fn link(
        &mut self,
        (from, output): (StageNumber, &str),
        (to, input): (StageNumber, &str),
    ) -> Result<(), Refusal> {
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        if self.leads(to, from) {
            return Err(Refusal::Ring);
        }
        let output = End { slot: from, port: self.hook(from, Side::Output, output)? };
        let input = match self.hook(to, Side::Input, input) {
            Ok(port) => End { slot: to, port },
            Err(refusal) => {
                self.unless_used(output, Side::Output);
                return Err(refusal);
            }
        };
        let edges = &mut self.entry(from).outputs.edges[output.port];
        if edges.contains(&input) {
            return Err(Refusal::EdgeThere);
        }
        if edges.len() == EDGES_MAX {
            self.unless_used(input, Side::Input);
            return Err(Refusal::TooManyEdges);
        }
        edges.push(input);
        self.entry(to).inputs.edges[input.port].push(output);
        Ok(())
    }

    /// Takes an edge away.
    pub(crate) fn unlink(
        &mut self,
        (from, output): (StageNumber, &str),
        (to, input): (StageNumber, &str),
    ) -> Result<(), Refusal> {
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        let output = self.entry(from).outputs.port(output).ok_or(Refusal::NoEdge)?;
        let input = self.entry(to).inputs.port(input).ok_or(Refusal::NoEdge)?;
        let (output, input) = (End { slot: from, port: output }, End { slot: to, port: input });
        if !self.drop_end(output, Side::Output, input) {
            return Err(Refusal::NoEdge);
        }
        self.drop_end(input, Side::Input, output);
        Ok(())
    }

    /// The hook of that name, which the stage has agreed to. The place of one without edges is used again.
    fn hook(&mut self, slot: usize, side: Side, name: &str) -> Result<usize, Refusal> {
        let entry = self.entry(slot);
        let hooks = entry.side(side);
        if let Some(port) = hooks.port(name) {
            return Ok(port);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(bad_name(name));
        }
        let port = hooks.edges.iter().position(Vec::is_empty).unwrap_or(hooks.names.len());
        if port == HOOKS_MAX {
            return Err(Refusal::TooManyEdges);
        }
        let stage = entry.stage.as_mut().expect("edges are made while no stage is asked");
        stage.edge_made(Hook { side, name, port }).map_err(Refusal::ByStage)?;
        let hooks = entry.side(side);
        if port == hooks.names.len() {
            hooks.names.push(String::new());
            hooks.edges.push(Vec::new());
        }
        name.clone_into(&mut hooks.names[port]);
        Ok(port)
    }

    /// A hook that the stage agreed to has got no edge after all.
    fn unless_used(&mut self, at: End, side: Side) {
        let entry = self.entry(at.slot);
        let hooks = entry.side(side);
        if hooks.edges[at.port].is_empty() {
            let name = hooks.names[at.port].clone();
            let stage = entry.stage.as_mut().expect("edges are made while no stage is asked");
            stage.edge_gone(Hook { side, name: &name, port: at.port });
        }
    }

    /// Whether values of one stage come to another, or both are one.
    fn leads(&self, from: usize, to: usize) -> bool {
        let mut seen = vec![false; self.slots.len()];
        let mut next = vec![from];
        while let Some(slot) = next.pop() {
            if slot == to {
                return true;
            }
            if !std::mem::replace(&mut seen[slot], true) {
                let ends = self.slots[slot].iter().flat_map(|entry| entry.outputs.edges.iter().flatten());
                next.extend(ends.map(|end| end.slot));
            }
        }
        false
    }

    /// Who is linked to an output.
    pub(crate) fn ends(&self, slot: usize, output: usize) -> &[End] {
        let entry = self.slots.get(slot).and_then(Option::as_ref);
        entry.and_then(|entry| entry.outputs.edges.get(output)).map_or(&[], Vec::as_slice)
    }

    /// Takes a stage out, so that it can be asked; [`Graph::back`] puts it back.
    pub(crate) fn take(&mut self, slot: usize) -> Option<(StageNumber, Box<dyn Stage>)> {
        let entry = self.slots.get_mut(slot)?.as_mut()?;
        Some((entry.number, entry.stage.take()?))
    }

    pub(crate) fn back(&mut self, slot: usize, stage: Box<dyn Stage>) {
        self.entry(slot).stage = Some(stage);
    }

    /// All stages by number: their names and types.
    pub(crate) fn stages(&self) -> Vec<(StageNumber, Option<&str>, &'static str)> {
        let entries = self.slots.iter().flatten();
        let mut all: Vec<_> =
            entries.map(|entry| (entry.number, entry.name.as_deref(), entry.type_name)).collect();
        all.sort_unstable_by_key(|(number, ..)| *number);
        all
    }

    /// All edges: number and output, number and input.
    pub(crate) fn edges(&self) -> Vec<(StageNumber, &str, StageNumber, &str)> {
        let mut edges = Vec::new();
        for entry in self.slots.iter().flatten() {
            for (output, ends) in entry.outputs.names.iter().zip(&entry.outputs.edges) {
                for end in ends {
                    let to = self.slots[end.slot].as_ref().expect("an edge leads to a stage that is there");
                    edges.push((
                        entry.number,
                        output.as_str(),
                        to.number,
                        to.inputs.names[end.port].as_str(),
                    ));
                }
            }
        }
        edges.sort_unstable();
        edges
    }
}

/// Of a stage or timer.
pub(crate) fn check_name(name: &str) -> Result<(), Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
    if is_name { Ok(()) } else { Err(bad_name(name)) }
}

fn bad_name(name: &str) -> Refusal {
    Refusal::BadName(name.chars().take(NAME_BYTES_MAX).collect())
}
