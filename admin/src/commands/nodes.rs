//! `starfarm nodes` and `starfarm node`.

use starfarm_logs::replay::by_number;
use starfarm_protocol::admin::{DeviceInfo, DevicesInfo, NodeCommand, NodeInfo, RateInfo, Request, Subject};
use starfarm_protocol::devices::DeviceState;
use starfarm_protocol::foreign;
use starfarm_protocol::ids::PublicKey;
use starfarm_protocol::limits::DATAGRAM_BYTES_MAX;
use starfarm_protocol::state::NodeState;
use starfarm_protocol::wire::CardFigures;

use super::{Context, explain, usage};
use crate::cli::Node;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::human;
use crate::output::table::{Cell, Column, facts, left, name, right};
use crate::output::{Format, Record};

/// Slots whose loads fit into a line.
const SLOTS_SHOWN: usize = 8;

impl Record for NodeInfo {
    const ONE: &'static str = "node";
    const MANY: &'static str = "nodes";
    const COLUMNS: &'static [Column<Self>] = &[
        name("name", |node| Cell::new(&node.name)),
        left("state", state_and_time),
        right("slots", |node| Cell::new(slots(node))),
        right("load", |node| Cell::new(load(node))),
        right("speed", |node| Cell::new(human::count(node.power))),
        right("tasks", |node| Cell::new(human::count(node.tasks as f64))),
        right("done", |node| Cell::new(human::count(node.tasks_done as f64))),
        right("units", |node| Cell::new(human::units(node.units_done))),
        right("silent", |node| Cell::new(human::seconds_if_known(node.silent_seconds))),
    ];

    fn quiet(&self) -> String {
        self.name.clone()
    }
}

pub(crate) fn list(context: &mut Context) -> Result<(), Failure> {
    let mut nodes = context.connect()?.nodes()?;
    sort(&mut nodes);
    context.printer.list(&nodes)
}

/// As people look for them: by name, n2 before n10.
pub(super) fn sort(nodes: &mut [NodeInfo]) {
    nodes.sort_by(|a, b| by_number(&a.name, &b.name));
}

/// The state, in its colour. That a person drains a node is seen in its state, but not while it is lost or in
/// quarantine.
pub(super) fn state(node: &NodeInfo) -> Cell {
    let state = if node.left { Cell::new("left") } else { Cell::state(node.state.word()) };
    match node.state {
        NodeState::Lost | NodeState::Quarantined if node.drained => {
            Cell { text: format!("{}, drained", state.text), ..state }
        }
        _ => state,
    }
}

/// The state, and how long it stays where it leaves by itself.
fn state_and_time(node: &NodeInfo) -> Cell {
    let state = state(node);
    match node.time_left_seconds.filter(|_| node.state != NodeState::Lost) {
        Some(left) => Cell { text: format!("{}, {} left", state.text, human::seconds(left)), ..state },
        None => state,
    }
}

/// Slots of its cores, and its devices where it has some: `64+8`.
pub(super) fn slots(node: &NodeInfo) -> String {
    match node.device_loads().count() {
        0 => node.slots.to_string(),
        devices => format!("{}+{devices}", node.slots),
    }
}

/// Mean load of its slots.
pub(super) fn load(node: &NodeInfo) -> String {
    node.load_mean().map_or_else(|| "-".to_owned(), percent)
}

/// Memory that it may use; none where that is not known.
fn memory(node: &NodeInfo) -> Option<String> {
    let bytes = node.memory_bytes.filter(|&bytes| bytes > 0)?;
    Some(human::memory(bytes))
}

/// What of it units may claim, and how much of that running ones do.
fn memory_and_claims(node: &NodeInfo) -> String {
    let all = memory(node).unwrap_or_else(|| "-".to_owned());
    let [claimable, claimed] = [node.memory_claimable_bytes, node.memory_claimed_bytes].map(human::memory);
    match node.memory_claimable_bytes {
        0 => all,
        _ => format!("{all}, for units {claimable}: {claimed} claimed"),
    }
}

pub(crate) fn run(context: &mut Context, command: &Node) -> Result<(), Failure> {
    match command {
        Node::Show(node) => show(context, &node.name),
        Node::Explain(node) => explain::run(context, Subject::Node(node.name.clone())),
        Node::Drain(node) => steer(context, &node.name, NodeCommand::Drain),
        Node::Resume(node) => steer(context, &node.name, NodeCommand::Resume),
        Node::Forget(node) => steer(context, &node.name, NodeCommand::Forget),
    }
}

fn show(context: &mut Context, name: &str) -> Result<(), Failure> {
    let node = named(&mut context.connect()?, name)?;
    match context.printer.format {
        Format::Table => context.printer.text(&facts(&figures(&node), context.printer.style)),
        _ => context.printer.list(&[node]),
    }
}

/// Does it, and prints the node as it is then; a node that was forgotten leaves an empty list.
fn steer(context: &mut Context, name: &str, verb: NodeCommand) -> Result<(), Failure> {
    let mut client = context.connect()?;
    client.command(&Request::Node { name: name.to_owned(), command: verb })?;
    let is_gone = verb == NodeCommand::Forget;
    match context.printer.format {
        Format::Quiet => Ok(()),
        Format::Table if is_gone => Ok(()),
        _ if is_gone => context.printer.list::<NodeInfo>(&[]),
        _ => context.printer.list(&[named(&mut client, name)?]),
    }
}

fn named(client: &mut Client, name: &str) -> Result<NodeInfo, Failure> {
    let node = client.nodes()?.into_iter().find(is_called(name));
    node.ok_or_else(|| {
        let name = foreign::name(name);
        Failure::new(Exit::NotFound, format!("no node {name}: `starfarm nodes` lists them"))
    })
}

/// Whether a node is the one that a person gave by its key or its name, in this order: a worker may call itself as
/// another's key is written.
fn is_called(given: &str) -> impl Fn(&NodeInfo) -> bool + use<'_> {
    let key = given.parse::<PublicKey>().ok();
    move |node| key.map_or(node.name == given, |key| node.key == Some(key))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 1e2)
}

/// How busy it is: the mean, each slot where they are few, and since when it is not.
fn busyness(node: &NodeInfo) -> Vec<(&'static str, Cell)> {
    let Some(mean) = node.load_mean() else { return Vec::new() };
    let mut load = percent(mean);
    if (2..=SLOTS_SHOWN).contains(&node.load.len()) {
        let each: Vec<String> = node.load.iter().map(|&load| percent(load as f64 / 1e3)).collect();
        load.push_str(&format!(" ({})", each.join(", ")));
    }
    let mut rows = vec![("load", Cell::new(load))];
    if node.idle_us > 0 {
        rows.push(("idle for", Cell::new(human::seconds(node.idle_us as f64 / 1e6))));
    }
    rows
}

/// What a slot computes, and of which job.
fn rate(rate: &RateInfo) -> String {
    format!("{} units/s of job {}", human::count(rate.units_per_s), rate.job.0)
}

/// Its cards: what the driver of each says.
fn cards(node: &NodeInfo) -> Vec<(&'static str, Cell)> {
    let row = |(number, card): (usize, &CardFigures)| {
        let load = card.load.map(|load| percent(f64::from(load) / 1e3));
        let memory = match (card.memory_used_bytes, card.memory_bytes) {
            (Some(used), Some(all)) => Some(format!("{} of {}", human::memory(used), human::memory(all))),
            (used, all) => used.or(all).map(human::memory),
        };
        let temperature = card.temperature_c.map(|degrees| format!("{degrees} °C"));
        let power = card.power_mw.map(|mw| format!("{:.0} W", f64::from(mw) / 1e3));
        let known: Vec<String> = [load, memory, temperature, power].into_iter().flatten().collect();
        let known = if known.is_empty() { "its driver says nothing".to_owned() } else { known.join(", ") };
        ("card", Cell::new(format!("{number}: {}: {known}", card.model)))
    };
    node.cards.iter().enumerate().map(row).collect()
}

/// Its devices: each kind, what they are, and how each does.
fn devices(node: &NodeInfo) -> Vec<(&'static str, Cell)> {
    let row = |devices: &DevicesInfo| {
        let does = |device: &DeviceInfo| match device.state {
            DeviceState::Ready => percent(device.load as f64 / 1e3),
            state => state.to_string(),
        };
        let each: Vec<String> = devices.slots.iter().map(does).collect();
        let rate = devices.rate.as_ref().map_or_else(String::new, |of| format!("; each {}", rate(of)));
        let (kind, what) = (devices.kind.0, devices.device);
        let (count, name, each) = (devices.slots.len(), &devices.name, each.join(", "));
        let memory = human::memory(devices.memory_bytes);
        let text = format!("{count} x {name} ({what}, OpenCL {}, {memory}): {each}{rate}", devices.opencl);
        ("devices", Cell::new(format!("{kind}: {text}")))
    };
    node.devices.iter().map(row).collect()
}

/// A node's figures, by name.
pub(super) fn figures(node: &NodeInfo) -> Vec<(&'static str, Cell)> {
    let number = |count: u64| Cell::new(human::count(count as f64));
    let or_dash = |text: Option<String>| Cell::new(text.as_deref().unwrap_or("-"));
    let ago = |seconds| format!("{} ago", human::seconds(seconds));
    let unheard = || "not since the scheduler's start".to_owned();
    let models = node.accelerators.as_deref().map(|models| if models.is_empty() { "none" } else { models });
    let accelerators = match (models.unwrap_or("-"), node.gpus) {
        (models, 0.0) => models.to_owned(),
        (models, gpus) => format!("{models}, for units {gpus}: {} taken", node.gpus_taken),
    };
    let mut rows = vec![("name", Cell::new(&node.name)), ("state", state(node))];
    if !node.why.is_empty() {
        rows.push(("quarantined for", Cell::new(&node.why)));
    }
    if let Some(left) = node.time_left_seconds.filter(|_| node.state != NodeState::Lost) {
        rows.push(("time left", Cell::new(human::seconds(left))));
    }
    rows.extend([
        ("last heard", Cell::new(node.silent_seconds.map_or_else(unheard, ago))),
        ("joined", Cell::new(ago(node.joined_seconds))),
        ("system", or_dash(node.system.clone())),
        ("cpu", or_dash(node.cpu.clone())),
        ("cores", or_dash(node.cores.map(|cores| cores.to_string()))),
        ("memory", Cell::new(memory_and_claims(node))),
        ("accelerators", Cell::new(accelerators)),
        ("slots", Cell::new(format!("{} of {} taken", node.slots_taken, node.slots))),
    ]);
    rows.extend(node.usage.iter().flat_map(usage::of_node));
    rows.extend(busyness(node));
    rows.extend(node.rate.as_ref().map(|of| ("each core", Cell::new(rate(of)))));
    rows.extend(devices(node));
    rows.extend(cards(node));
    rows.extend([
        ("speed", Cell::new(format!("{} standard tasks a period (power)", human::count(node.power)))),
        ("tasks given to it", number(node.tasks)),
        ("  in its queue", number(node.tasks_queued)),
        ("tasks done", number(node.tasks_done)),
        ("units done", Cell::new(human::units(node.units_done))),
        ("speed-ups", number(node.speed_ups)),
        ("slow-downs", number(node.slow_downs)),
        ("offers repeated", number(node.offers_repeated)),
        ("malformed", number(node.malformed)),
        ("results worthless", number(node.results_worthless)),
        ("key", or_dash(node.key.map(|key| key.to_string()))),
    ]);
    if let Some(bytes) = node.datagram_bytes.filter(|&bytes| bytes < DATAGRAM_BYTES_MAX as u32) {
        let words = format!("at most {bytes} bytes: its path swallows larger ones");
        rows.push(("datagrams", Cell::new(words)));
    }
    rows
}

#[cfg(test)]
pub(crate) mod testing {
    //! A node to test with.

    use super::*;
    use starfarm_protocol::devices::{DeviceKind, SlotKind};
    use starfarm_protocol::ids::{JobId, NodeId};
    use starfarm_protocol::units::Units;

    pub(crate) fn devices() -> DevicesInfo {
        let device = |state, load| DeviceInfo { state, load };
        DevicesInfo {
            kind: SlotKind(1),
            name: "Some GPU".into(),
            device: DeviceKind::Gpu,
            platform: "Some CL".into(),
            driver: "1.2".into(),
            opencl: "3.0".into(),
            memory_bytes: 24 << 30,
            compute_units: 128,
            slots: vec![device(DeviceState::Ready, 980), device(DeviceState::Sick, 0)],
            tasks: 2,
            tasks_queued: 1,
            rate: Some(RateInfo { job: JobId(3), units_per_s: 12e9 }),
        }
    }

    pub(crate) fn node(name: &str) -> NodeInfo {
        NodeInfo {
            id: NodeId(7),
            name: name.into(),
            state: NodeState::Up,
            why: String::new(),
            drained: false,
            slots: 2,
            power: 2.5,
            tasks: 3,
            tasks_queued: 1,
            tasks_done: 40,
            units_done: Units(1_200_000_000),
            speed_ups: 7,
            slow_downs: 1,
            offers_repeated: 0,
            silent_seconds: Some(0.42),
            joined_seconds: 7_300.0,
            load: vec![1_000, 250],
            datagram_bytes: Some(1_400),
            system: Some("lab-7, Debian GNU/Linux 12, Linux 6.1.0".into()),
            cpu: Some("Some CPU @ 2.00GHz".into()),
            cores: Some(16),
            memory_bytes: Some(1 << 34),
            memory_claimable_bytes: 15 << 30,
            memory_claimed_bytes: 4 << 30,
            slots_taken: 1,
            accelerators: Some("2 x Some GPU".into()),
            ..NodeInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::testing::node;
    use super::*;
    use crate::output::Style;
    use crate::output::testing::printed;

    #[test]
    fn nodes_are_sorted_as_people_count() {
        let mut nodes = ["n10", "n2", "a"].map(node);
        sort(&mut nodes);
        assert_eq!(nodes.map(|node| node.name), ["a", "n2", "n10"]);
    }

    #[test]
    fn memory_that_is_not_known_is_not_called_none() {
        let of = |memory_bytes| memory(&NodeInfo { memory_bytes, ..node("a") });
        assert_eq!((of(None), of(Some(0))), (None, None));
        assert_eq!(of(Some(25_232_932_864)).as_deref(), Some("23.5 GiB"));
    }

    #[test]
    fn a_node_has_a_row_for_each_of_its_cards() {
        let card = CardFigures {
            model: "Some GPU".into(),
            load: Some(970),
            power_mw: Some(351_000),
            ..CardFigures::default()
        };
        let some =
            CardFigures { memory_used_bytes: Some(1 << 30), memory_bytes: Some(2 << 30), ..card.clone() };
        let cards = vec![card, some, CardFigures { model: "Other".into(), ..CardFigures::default() }];
        let text = facts(&figures(&NodeInfo { cards, ..node("a") }), Style::PLAIN);
        for row in [
            "card               0: Some GPU: 97 %, 351 W\n",
            "card               1: Some GPU: 97 %, 1.0 GiB of 2.0 GiB, 351 W\n",
            "card               2: Other: its driver says nothing\n",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
    }

    #[test]
    fn nodes_in_each_format() {
        let lost =
            NodeInfo { state: NodeState::Lost, silent_seconds: Some(4_000.0), load: vec![], ..node("lab-7") };
        let nodes = [node("a"), lost];
        expect![[r#"
            name   state  slots  load  speed  tasks  done   units      silent
            a      up         2  62 %    2.5      3    40  1.20 G      0.42 s
            lab-7  lost       2     -    2.5      3    40  1.20 G  1 h 06 min
        "#]]
        .assert_eq(&printed(Format::Table, |printer| printer.list(&nodes)));
        assert_eq!(printed(Format::Quiet, |printer| printer.list(&nodes)), "a\nlab-7\n");
        let left = [NodeInfo { left: true, ..nodes[1].clone() }];
        assert!(printed(Format::Table, |printer| printer.list(&left)).contains("lab-7  left   "));
        let kept_out = [NodeInfo { drained: true, ..nodes[1].clone() }];
        assert!(printed(Format::Table, |printer| printer.list(&kept_out)).contains("  lost, drained  "));
        assert!(facts(&figures(&kept_out[0]), Style::PLAIN).contains(" lost, drained\n"));
        let unheard = [NodeInfo { silent_seconds: None, ..node("a") }];
        assert!(printed(Format::Table, |printer| printer.list(&unheard)).ends_with(" -\n"));
        expect![[r#"
            name               lab-7
            state              lost
            last heard         1 h 06 min ago
            joined             2 h 01 min ago
            system             lab-7, Debian GNU/Linux 12, Linux 6.1.0
            cpu                Some CPU @ 2.00GHz
            cores              16
            memory             16.0 GiB, for units 15.0 GiB: 4.0 GiB claimed
            accelerators       2 x Some GPU
            slots              1 of 2 taken
            speed              2.5 standard tasks a period (power)
            tasks given to it  3
              in its queue     1
            tasks done         40
            units done         1.20 G
            speed-ups          7
            slow-downs         1
            offers repeated    0
            malformed          0
            results worthless  0
            key                -
        "#]]
        .assert_eq(&facts(&figures(&nodes[1]), Style::PLAIN));
        let with_devices = NodeInfo { devices: vec![testing::devices()], ..node("a") };
        let text = facts(&figures(&with_devices), Style::PLAIN);
        let row = "\ndevices            1: 2 x Some GPU (gpu, OpenCL 3.0, 24.0 GiB): 98 %, sick; each 12.0 G units/s of job 3\n";
        assert!(text.contains(row), "{text}");
        let listed = printed(Format::Table, |printer| printer.list(&[with_devices]));
        assert!(listed.contains("a     up       2+2  56 %"), "{listed}");
        let leaves = [NodeInfo { time_left_seconds: Some(5_400.0), ..node("a") }];
        assert!(
            printed(Format::Table, |printer| printer.list(&leaves)).contains("a     up, 1 h 30 min left  ")
        );
        assert!(facts(&figures(&leaves[0]), Style::PLAIN).contains("\ntime left          1 h 30 min\n"));
        let sick = NodeInfo {
            why: "failed 9 of 10 units".into(),
            idle_us: 200_000_000,
            datagram_bytes: Some(548),
            accelerators: Some(String::new()),
            ..node("a")
        };
        let text = facts(&figures(&sick), Style::PLAIN);
        assert!(text.contains("\nload               62 % (100 %, 25 %)\nidle for           3 min"), "{text}");
        assert!(text.contains("\naccelerators       none\n"), "{text}");
        assert!(
            text.ends_with("\ndatagrams          at most 548 bytes: its path swallows larger ones\n"),
            "{text}"
        );
        assert!(text.contains("\nquarantined for    failed 9 of 10 units\n"), "{text}");
    }
}
