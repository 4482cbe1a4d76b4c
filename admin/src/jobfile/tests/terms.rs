//! Which jobs a job starts after, its labels, how many nodes it may have.

use expect_test::expect;
use starfarm_protocol::ids::JobId;
use starfarm_protocol::metric::Metric;
use starfarm_protocol::terms::{Monitored, Terms};

use super::*;

const TASK: &str =
    "[space]\nkind = \"range\"\nfrom = 0\nto = 1\n[task]\nexecutor = \"command\"\nprogram = [\"true\"]\n";

#[test]
fn one_job_or_several_and_labels_and_nodes() {
    let read = |text: &str| parse(text, "demo.toml", Path::new("")).unwrap().terms;
    assert_eq!(read(TASK), Terms::default());
    let text = format!(
        "after = 3\nafter_any = [4, 5]\nlabels = {{ project = \"x\", b = \"\" }}\n{TASK}max_nodes = 2\nstorage_limit = \"2GiB\"\n"
    );
    let labels = [("project", "x"), ("b", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let (after, after_any) = (vec![JobId(3)], vec![JobId(4), JobId(5)]);
    assert_eq!(
        read(&text),
        Terms {
            after,
            after_any,
            labels: labels.into(),
            max_nodes: Some(2),
            storage_limit: Some(2 << 30),
            monitor: None
        }
    );
}

#[test]
fn what_is_measured_of_a_job() {
    let read = |text: &str| parse(&format!("{TASK}[monitor]\n{text}"), "demo.toml", Path::new(""));
    let monitor = |text: &str| read(text).unwrap().terms.monitor.unwrap();
    let all = Monitored { period_us: 1_000_000, metrics: Vec::new(), own_tree: false };
    assert_eq!(monitor("tree = \"farm\"\n"), all);
    assert_eq!(monitor("tree = \"own\"\n"), Monitored { own_tree: true, ..all.clone() });
    assert_eq!(monitor("period = 0.1\n"), Monitored { period_us: 100_000, ..all.clone() });
    assert_eq!(monitor("period = 0\n").period_us, 0);
    assert_eq!(monitor("metrics = [\"cpu\", \"memory\"]\n").metrics, [Metric::Cpu, Metric::Memory]);
    let texts = [
        "period = 0.01\n",
        "period = -1\n",
        "metrics = \"cpu\"\n",
        "metrics = [\"heat\"]\n",
        "tree = \"its own\"\n",
        "every = 1\n",
    ];
    refused(
        &texts.map(|text| format!("{TASK}[monitor]\n{text}")),
        expect![[r#"
        demo.toml:9:10: `period` is 0.01: use 0.1 to 3600 seconds, or 0 for never
        demo.toml:9:10: `period` is -1: use 0.1 to 3600 seconds, or 0 for never
        demo.toml:9:11: `metrics` must be a list of metrics, this is a string: change it
        demo.toml:9:12: there is no metric `heat`: use some of cpu, memory, gpu, io, network-received, network-sent, swap, gpu-memory, run-queue
        demo.toml:9:8: `tree` is `its own`: use "farm" or "own"
        demo.toml:9:1: unknown key `every` in [monitor]: remove it, or use one of period, metrics, tree
    "#]],
    );
}

#[test]
fn what_no_job_has() {
    let texts = [
        format!("after = \"3\"\n{TASK}"),
        format!("after = [3, 0]\n{TASK}"),
        format!("after_any = {:?}\n{TASK}", [1; 101]),
        format!("labels = \"x\"\n{TASK}"),
        format!("labels = {{ a = 1 }}\n{TASK}"),
        format!("labels = {{ \"a b\" = \"x\" }}\n{TASK}"),
        format!("{TASK}max_nodes = 0\n"),
        format!("{TASK}storage_limit = 0\n"),
        format!("{TASK}storage_limit = \"0M\"\n"),
        format!("{TASK}storage_limit = \"much\"\n"),
        format!("{TASK}after = 3\n"),
    ];
    refused(
        &texts,
        expect![[r#"
            demo.toml:1:9: `after` must be an integer, this is a string: change it
            demo.toml:1:13: `after[1]` is 0: use an integer from 1 to 9223372036854775807
            demo.toml:1:1: `after_any` names 101 jobs: name 100 at most
            demo.toml:1:10: `labels` must be a table, this is a string: change it
            demo.toml:1:16: `a` must be a string in quotes, this is an integer: change it
            demo.toml:1:20: a label's key is 1 to 63 letters, digits, `_`, `-`, `.` or `/`, not "a b": change it
            demo.toml:8:13: `max_nodes` is 0: use an integer from 1 to 4294967295
            demo.toml:8:17: `storage_limit` is 0: use an integer from 1 to 9223372036854775807
            demo.toml:8:17: `storage_limit` "0M": write 1 byte or more
            demo.toml:8:17: `storage_limit` "much": write a size as 20G, 500M or 1.5T (powers of 1024), 20GB (powers of 1000) or in bytes
            demo.toml:8:1: unknown key `after` in [task]: remove it, or use one of executor, program, per, inputs, outputs, files_limit, stdin, cwd, env, timeout_seconds, hang_seconds, retries, output_limit, slots, memory, needs, target_seconds, units_per_task, max_failures, speculative, max_nodes, storage_limit
        "#]],
    );
}
