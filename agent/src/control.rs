//! What is asked of an agent from afar: its graph.

use starfarm_agent_core::Runtime;
use starfarm_protocol::admin::{EdgeInfo, GraphInfo, GraphTimer, StageInfo};

/// The graph as JSON.
pub(crate) fn graph(runtime: &Runtime) -> Vec<u8> {
    let stage = |(number, name, type_name): (starfarm_agent_core::StageNumber, Option<&str>, &str)| {
        StageInfo { number: number.0, name: name.map(str::to_owned), type_name: type_name.to_owned() }
    };
    let graph = GraphInfo {
        stages: runtime.stages().into_iter().map(stage).collect(),
        edges: runtime
            .edges()
            .into_iter()
            .map(|(from, output, to, input)| EdgeInfo {
                from: from.0,
                output: output.to_owned(),
                to: to.0,
                input: input.to_owned(),
            })
            .collect(),
        timers: runtime
            .timers()
            .into_iter()
            .map(|timer| GraphTimer {
                name: timer.name.to_owned(),
                period_seconds: timer.period_us.map(|period_us| period_us as f64 / 1e6),
                subscribers: timer.subscribers.into_iter().map(|stage| stage.0).collect(),
            })
            .collect(),
    };
    serde_json::to_vec(&graph).expect("numbers and words are always JSON")
}
