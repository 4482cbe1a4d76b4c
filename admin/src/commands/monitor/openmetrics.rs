//! Figures as OpenMetrics text, as Prometheus and others read it. Labels are jobs that live and nodes that are there, and no
//! others.

use std::collections::BTreeSet;
use std::fmt::Write;

use starfarm_protocol::metric::Metric;

use super::series::Series;

/// Names that services and programs give, at most.
const NAMES_MAX: usize = 1_000;

/// A metric's name in the text, without what it is of; the unit is its last word.
fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::Cpu => "cpu_cores",
        Metric::Memory => "memory_bytes",
        Metric::Gpu => "gpu_cards",
        Metric::Io => "io_bytes_per_second",
        Metric::NetworkReceived => "received_bytes_per_second",
        Metric::NetworkSent => "sent_bytes_per_second",
        Metric::Swap => "swap_bytes",
        Metric::GpuMemory => "gpu_memory_bytes",
        Metric::RunQueue => "run_queue_processes",
    }
}

/// A number of a job.
type Count = fn(&Series) -> u64;

pub(super) fn text(all: &[Series]) -> String {
    let mut out = String::new();
    let job = |series: &Series| series.job.map(|job| job.0.to_string()).unwrap_or_default();
    let node = |series: &Series| escaped(series.node.as_deref().unwrap_or_default());
    for metric in &[Metric::Cpu, Metric::Memory, Metric::Gpu, Metric::GpuMemory, Metric::Io] {
        let of = all.iter().filter(|series| series.job.is_some() && series.metric == metric.word());
        let lines: Vec<_> = of
            .flat_map(|series| {
                let stats = [
                    ("sum", series.spread.sum),
                    ("min", series.spread.min),
                    ("avg", series.spread.avg),
                    ("max", series.spread.max),
                ];
                stats.map(|(stat, value)| (format!("job=\"{}\",stat=\"{stat}\"", job(series)), value))
            })
            .collect();
        family(&mut out, &format!("starfarm_job_{}", name(*metric)), "of a job's units", &lines);
    }
    // Of each job once, whatever is known of it.
    let mut firsts: Vec<&Series> = all.iter().filter(|series| series.job.is_some()).collect();
    firsts.dedup_by_key(|series| series.job);
    let counts: [(&str, &str, Count); 3] = [
        ("units", "units that the figures of a job are of", |series| series.count),
        ("nodes_heard", "nodes that they are from", |series| series.from),
        ("nodes", "nodes that run the job", |series| series.of),
    ];
    for (of, help, count) in counts {
        let line = |series: &&Series| (format!("job=\"{}\"", job(series)), count(series) as f64);
        let lines: Vec<_> = firsts.iter().map(line).collect();
        family(&mut out, &format!("starfarm_job_{of}"), help, &lines);
    }
    for metric in Metric::ALL {
        let of = all.iter().filter(|series| series.node.is_some() && series.metric == metric.word());
        let lines: Vec<_> =
            of.map(|series| (format!("node=\"{}\"", node(series)), series.spread.sum)).collect();
        family(&mut out, &format!("starfarm_node_{}", name(*metric)), "of a node's machine", &lines);
    }
    named(&mut out, all);
    out.push_str("# EOF\n");
    out
}

/// Figures that services and programs give: their names are labels, of so many at most.
fn named(out: &mut String, all: &[Series]) {
    let named = all.iter().filter(|series| Metric::from_word(&series.metric).is_none());
    let names: BTreeSet<_> = named
        .clone()
        .map(|series| &*series.metric)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .take(NAMES_MAX)
        .collect();
    let (mut of_jobs, mut of_nodes) = (Vec::new(), Vec::new());
    for series in named.filter(|series| names.contains(&*series.metric)) {
        let (name, spread) = (escaped(&series.metric), series.spread);
        match (&series.job, &series.node) {
            (Some(job), _) => {
                let stats =
                    [("sum", spread.sum), ("min", spread.min), ("avg", spread.avg), ("max", spread.max)];
                of_jobs.extend(stats.map(|(stat, value)| {
                    (format!("job=\"{}\",name=\"{name}\",stat=\"{stat}\"", job.0), value)
                }));
            }
            (None, Some(node)) => {
                of_nodes.push((format!("node=\"{}\",name=\"{name}\"", escaped(node)), spread.sum));
            }
            (None, None) => {}
        }
    }
    family(out, "starfarm_job_figure", "that a job's programs give", &of_jobs);
    family(out, "starfarm_node_figure", "that services of a node give", &of_nodes);
}

/// A family of gauges; without values there is none.
fn family(out: &mut String, name: &str, help: &str, lines: &[(String, f64)]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "# TYPE {name} gauge\n# HELP {name} {}{}", help[..1].to_uppercase(), &help[1..]);
    for (labels, value) in lines {
        let _ = writeln!(out, "{name}{{{labels}}} {value}");
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use starfarm_protocol::admin::Spread;
    use starfarm_protocol::ids::JobId;

    use super::*;

    fn series(job: Option<u64>, node: Option<&str>, metric: &'static str, sum: f64) -> Series {
        Series {
            job: job.map(JobId),
            node: node.map(str::to_owned),
            metric: metric.into(),
            spread: Spread { min: sum / 4.0, avg: sum / 2.0, max: sum, sum },
            count: 2,
            from: 1,
            of: 2,
            age_seconds: 0.5,
        }
    }

    #[test]
    fn families_stand_together_and_labels_are_escaped() {
        let all = [
            series(Some(7), None, "cpu", 1.5),
            series(Some(7), None, "memory", 4096.0),
            series(Some(7), None, "job.loss", 0.5),
            series(Some(9), None, "cpu", 0.0),
            series(None, Some("a\"b"), "cpu", 2.0),
            series(None, Some("a\"b"), "switch.temperature", -2.5),
        ];
        expect![[r##"
            # TYPE starfarm_job_cpu_cores gauge
            # HELP starfarm_job_cpu_cores Of a job's units
            starfarm_job_cpu_cores{job="7",stat="sum"} 1.5
            starfarm_job_cpu_cores{job="7",stat="min"} 0.375
            starfarm_job_cpu_cores{job="7",stat="avg"} 0.75
            starfarm_job_cpu_cores{job="7",stat="max"} 1.5
            starfarm_job_cpu_cores{job="9",stat="sum"} 0
            starfarm_job_cpu_cores{job="9",stat="min"} 0
            starfarm_job_cpu_cores{job="9",stat="avg"} 0
            starfarm_job_cpu_cores{job="9",stat="max"} 0
            # TYPE starfarm_job_memory_bytes gauge
            # HELP starfarm_job_memory_bytes Of a job's units
            starfarm_job_memory_bytes{job="7",stat="sum"} 4096
            starfarm_job_memory_bytes{job="7",stat="min"} 1024
            starfarm_job_memory_bytes{job="7",stat="avg"} 2048
            starfarm_job_memory_bytes{job="7",stat="max"} 4096
            # TYPE starfarm_job_units gauge
            # HELP starfarm_job_units Units that the figures of a job are of
            starfarm_job_units{job="7"} 2
            starfarm_job_units{job="9"} 2
            # TYPE starfarm_job_nodes_heard gauge
            # HELP starfarm_job_nodes_heard Nodes that they are from
            starfarm_job_nodes_heard{job="7"} 1
            starfarm_job_nodes_heard{job="9"} 1
            # TYPE starfarm_job_nodes gauge
            # HELP starfarm_job_nodes Nodes that run the job
            starfarm_job_nodes{job="7"} 2
            starfarm_job_nodes{job="9"} 2
            # TYPE starfarm_node_cpu_cores gauge
            # HELP starfarm_node_cpu_cores Of a node's machine
            starfarm_node_cpu_cores{node="a\"b"} 2
            # TYPE starfarm_job_figure gauge
            # HELP starfarm_job_figure That a job's programs give
            starfarm_job_figure{job="7",name="job.loss",stat="sum"} 0.5
            starfarm_job_figure{job="7",name="job.loss",stat="min"} 0.125
            starfarm_job_figure{job="7",name="job.loss",stat="avg"} 0.25
            starfarm_job_figure{job="7",name="job.loss",stat="max"} 0.5
            # TYPE starfarm_node_figure gauge
            # HELP starfarm_node_figure That services of a node give
            starfarm_node_figure{node="a\"b",name="switch.temperature"} -2.5
            # EOF
        "##]]
        .assert_eq(&text(&all));
        assert_eq!(text(&[]), "# EOF\n");
    }
}
