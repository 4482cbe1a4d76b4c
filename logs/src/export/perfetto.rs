//! A trace for <https://ui.perfetto.dev>: a track for each node with a lane for each of its slots, runs of results as
//! slices, the farm's figures as counters, and what happened as instants.
//!
//! Numbers of fields are those of perfetto's `trace_packet.proto`, `track_descriptor.proto`, `track_event.proto`,
//! `counter_descriptor.proto` and `debug_annotation.proto`.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use starfarm_events::{Event, Form, JobUsage, Name, Sample};
use starfarm_protocol::admin::UsageSpan;
use starfarm_protocol::ids::JobId;

use super::protobuf::Message;
use crate::Item;

const TRACE_PACKET: u32 = 1;

const PACKET_TIMESTAMP: u32 = 8;
const PACKET_SEQUENCE: u32 = 10;
const PACKET_TRACK_EVENT: u32 = 11;
const PACKET_TRACK_DESCRIPTOR: u32 = 60;

const TRACK_UUID: u32 = 1;
const TRACK_NAME: u32 = 2;
const TRACK_PARENT: u32 = 5;
const TRACK_COUNTER: u32 = 8;
const TRACK_CHILD_ORDERING: u32 = 11;
const TRACK_RANK: u32 = 12;
/// Children of a track stand in the order of their ranks.
const EXPLICIT: u64 = 3;

const EVENT_ANNOTATION: u32 = 4;
const EVENT_TYPE: u32 = 9;
const EVENT_TRACK: u32 = 11;
const EVENT_CATEGORY: u32 = 22;
const EVENT_NAME: u32 = 23;
const EVENT_COUNTER: u32 = 30;
const EVENT_REAL_COUNTER: u32 = 44;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

const ANNOTATION_UINT: u32 = 3;
const ANNOTATION_STRING: u32 = 6;
const ANNOTATION_NAME: u32 = 10;

/// All packets are of one writer.
const SEQUENCE: u64 = 1;
/// The track that nodes stand on.
const NODES: u64 = 1;
/// The track that what happened stands on.
const HAPPENED: u64 = 2;
/// The first counter's track.
const COUNTERS: u64 = 10;
/// The first track of jobs' cores: the job's number is added. Jobs beyond so many have none.
const FIRST_JOB: u64 = 1 << 20;
const JOBS_MAX: u64 = 1 << 24;
/// The first node's track; each has room for so many lanes.
const FIRST_NODE: u64 = 1 << 32;
const LANES_MAX: u64 = 1 << 12;
/// Nodes with a track of their own at most.
const NODES_MAX: usize = 200_000;
/// A slice that begins so much before its slot is free is cut there: times of results are not that exact.
const OVERLAP_US: u64 = 100_000;

/// Figures that become counters.
const FIGURES: [&str; 6] = ["gq", "dq", "jq", "nodes_up", "slots", "power_mean"];

/// A node's track.
struct Track {
    uuid: u64,
    /// When each lane is free again.
    lanes: Vec<u64>,
}

pub(super) struct Trace<'a> {
    out: &'a mut dyn Write,
    nodes: HashMap<Name, Track>,
    /// Jobs whose cores have a track.
    jobs: HashSet<JobId>,
}

impl<'a> Trace<'a> {
    /// A trace with the tracks that every one has.
    pub(super) fn new(out: &'a mut dyn Write) -> io::Result<Self> {
        let mut trace = Self { out, nodes: HashMap::new(), jobs: HashSet::new() };
        for (uuid, name) in [(NODES, "nodes"), (HAPPENED, "what happened")] {
            trace.track(&named(uuid, name).number(TRACK_CHILD_ORDERING, 1))?;
        }
        for (uuid, name) in (COUNTERS..).zip(FIGURES) {
            trace.track(&named(uuid, name).message(TRACK_COUNTER, &Message::default()))?;
        }
        Ok(trace)
    }

    /// Writes what comes of an item.
    pub(super) fn item(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::Snapshot(at_us, snapshot) => {
                self.sample(*at_us, &snapshot.sample)?;
                snapshot
                    .nodes
                    .iter()
                    .try_for_each(|node| self.node(&Name::from(node.name.as_str())).map(drop))
            }
            Item::Event(at_us, Event::Sampled(sample)) => self.sample(*at_us, sample),
            Item::Event(_, event @ Event::Tasks { .. }) => self.tasks(event),
            Item::Event(at_us, Event::JobUsage(usage)) => self.usage(*at_us, usage),
            Item::Event(at_us, event) if !event.dense() => self.instant(*at_us, event),
            _ => Ok(()),
        }
    }

    fn packet(&mut self, packet: Message) -> io::Result<()> {
        let packet = packet.number(PACKET_SEQUENCE, SEQUENCE);
        self.out.write_all(Message::default().message(TRACE_PACKET, &packet).as_bytes())
    }

    fn track(&mut self, track: &Message) -> io::Result<()> {
        self.packet(Message::default().message(PACKET_TRACK_DESCRIPTOR, track))
    }

    fn event(&mut self, at_us: u64, event: &Message) -> io::Result<()> {
        // Perfetto counts nanoseconds.
        let at_ns = at_us.saturating_mul(1_000);
        self.packet(Message::default().number(PACKET_TIMESTAMP, at_ns).message(PACKET_TRACK_EVENT, event))
    }

    fn sample(&mut self, at_us: u64, sample: &Sample) -> io::Result<()> {
        let counts = [sample.gq, sample.dq, sample.jq, sample.nodes_up, sample.slots];
        for (uuid, count) in (COUNTERS..).zip(counts) {
            self.event(at_us, &on_track(COUNTER, uuid).number(EVENT_COUNTER, count))?;
        }
        let uuid = COUNTERS + counts.len() as u64;
        self.event(at_us, &on_track(COUNTER, uuid).real(EVENT_REAL_COUNTER, sample.power_mean))
    }

    /// The cores that a job's units used together: from the beginning of the time that it is over until its end, where nothing
    /// more is known. What is over all of a job's life is told of one that has no minutes.
    fn usage(&mut self, at_us: u64, usage: &JobUsage) -> io::Result<()> {
        let JobUsage { job, over, for_us, cpu_cores_sum: Some(cores), .. } = usage else { return Ok(()) };
        let is_new = !self.jobs.contains(job);
        if job.0 >= JOBS_MAX || *over == UsageSpan::Life && !is_new {
            return Ok(());
        }
        let uuid = FIRST_JOB + job.0;
        if is_new {
            self.jobs.insert(*job);
            self.track(
                &named(uuid, &format!("cores of job {}", job.0)).message(TRACK_COUNTER, &Message::default()),
            )?;
        }
        self.event(at_us.saturating_sub(*for_us), &on_track(COUNTER, uuid).real(EVENT_REAL_COUNTER, *cores))?;
        self.event(at_us, &on_track(COUNTER, uuid).real(EVENT_REAL_COUNTER, 0.0))
    }

    /// The track of a node; a new one is described. Nodes that there is no room for are all on the one of nodes.
    fn node(&mut self, name: &Name) -> io::Result<u64> {
        if let Some(track) = self.nodes.get(name) {
            return Ok(track.uuid);
        }
        if self.nodes.len() == NODES_MAX {
            return Ok(NODES);
        }
        let uuid = FIRST_NODE + self.nodes.len() as u64 * LANES_MAX;
        self.nodes.insert(name.clone(), Track { uuid, lanes: Vec::new() });
        let track = named(uuid, &format!("node {name}")).number(TRACK_PARENT, NODES);
        self.track(&track.number(TRACK_CHILD_ORDERING, EXPLICIT))?;
        Ok(uuid)
    }

    /// A free lane of a node for a span, and when the span begins in it: results of one slot may overlap by what
    /// clocks differ, slices of one track may not.
    fn lane(&mut self, name: &Name, begun_us: u64, ended_us: u64) -> io::Result<(u64, u64)> {
        let uuid = self.node(name)?;
        let Some(track) = self.nodes.get_mut(name) else { return Ok((uuid, begun_us)) };
        let first = track.lanes.iter().enumerate().min_by_key(|(_, until_us)| **until_us);
        let free = track.lanes.iter().position(|until_us| *until_us <= begun_us);
        let soon = first.filter(|(_, until_us)| {
            let overlap_us = until_us.saturating_sub(begun_us);
            **until_us <= ended_us && overlap_us < OVERLAP_US.max((ended_us - begun_us) / 10)
        });
        if let Some(lane) = free.or(soon.map(|(lane, _)| lane)) {
            let begun_us = begun_us.max(track.lanes[lane]);
            track.lanes[lane] = ended_us;
            return Ok((uuid + 1 + lane as u64, begun_us));
        }
        let lane = track.lanes.len() as u64;
        if lane + 2 >= LANES_MAX {
            return Ok((uuid + 1, ended_us));
        }
        track.lanes.push(ended_us);
        let described = named(uuid + 1 + lane, &format!("slot {}", lane + 1));
        self.track(&described.number(TRACK_PARENT, uuid).number(TRACK_RANK, lane))?;
        Ok((uuid + 1 + lane, begun_us))
    }

    fn tasks(&mut self, event: &Event) -> io::Result<()> {
        let Event::Tasks { node, job, lo, hi, results, outcome, begun_us, ended_us, busy_us, .. } = event
        else {
            return Ok(());
        };
        let begun_us = (*begun_us).min(*ended_us);
        let (lane, begun_us) = self.lane(node, begun_us, *ended_us)?;
        let slice = on_track(SLICE_BEGIN, lane)
            .text(EVENT_CATEGORY, outcome.word())
            .text(EVENT_NAME, &format!("job {}", job.0))
            .message(EVENT_ANNOTATION, &said("lo", &lo.to_string()))
            .message(EVENT_ANNOTATION, &said("hi", &hi.to_string()))
            .message(EVENT_ANNOTATION, &counted("results", *results))
            .message(EVENT_ANNOTATION, &counted("busy_us", *busy_us));
        self.event(begun_us, &slice)?;
        self.event(*ended_us, &on_track(SLICE_END, lane))
    }

    /// What happened: at its node, or at the farm.
    fn instant(&mut self, at_us: u64, event: &Event) -> io::Result<()> {
        let track = match event.node() {
            Some(name) => self.node(name)?,
            None => HAPPENED,
        };
        let instant = on_track(INSTANT, track).text(EVENT_CATEGORY, event.kind());
        self.event(at_us, &instant.text(EVENT_NAME, &event.to_string()))
    }
}

/// Begins the description of a track.
fn named(uuid: u64, name: &str) -> Message {
    Message::default().number(TRACK_UUID, uuid).text(TRACK_NAME, name)
}

/// Begins an event of a track.
fn on_track(kind: u64, track: u64) -> Message {
    Message::default().number(EVENT_TYPE, kind).number(EVENT_TRACK, track)
}

fn said(name: &str, text: &str) -> Message {
    Message::default().text(ANNOTATION_NAME, name).text(ANNOTATION_STRING, text)
}

fn counted(name: &str, count: u64) -> Message {
    Message::default().text(ANNOTATION_NAME, name).number(ANNOTATION_UINT, count)
}
