//! Rules over the words of Rust code: unfinished work, unsafe code, and clocks, threads, sockets and files in
//! crates that must do without. Tests of those crates may use them: a test knows where it runs.

use super::problem::Problem;
use super::tokens::{Token, at, find};

/// Folders whose code decides and computes only: time and chance reach it as arguments.
const PURE: &[&str] = &[
    "protocol/src/",
    "scheduler/core/src/",
    "worker/core/src/",
    "overlay/core/src/",
    "agent/core/src/",
    "decomposers/src/",
    "kernels/src/",
];

/// Where unsafe code may stand, by the start of the path, and what for.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    ("kernels/src/avx", "SIMD"),
    ("kernels/src/neon", "SIMD"),
    ("kernels/opencl/src/program.rs", "calls of a device's driver"),
    ("exec/src/", "processes"),
    ("benches/src/bare.rs", "the C library's bare posix_spawn, to compare with"),
    ("benches/src/bin/spawn_rate.rs", "getrusage"),
    ("agent/src/library", "calls of modules that are shared objects in C"),
    ("net/src/", "batches of datagrams"),
    ("tests/fuzz/src/allocator.rs", "counting what a reader takes"),
];

/// What daemons are made of. A print there panics where it cannot be written, and waits where nobody reads.
const DAEMONS: &[&str] = &[
    "protocol/src/",
    "decomposers/src/",
    "kernels/src/",
    "logs/src/",
    "logs/events/src/",
    "net/src/",
    "agent/src/",
    "scheduler/",
    "worker/",
    "admin/src/",
];

/// Modules of the standard library that no pure crate may use, and what to do instead.
const IMPURE_MODULES: &[(&str, &str)] = &[
    ("thread", "start threads at the rim"),
    ("net", "keep sockets at the rim; addresses are in `core::net`"),
    ("fs", "take the content as an argument"),
];

/// All rules over the words of the file at `path`.
pub(super) fn check(path: &str, text: &str, tokens: &[Token]) -> Vec<Problem> {
    let mut problems = unfinished(path, tokens);
    problems.extend(unsafe_code(path, text, tokens));
    if DAEMONS.iter().any(|folder| path.starts_with(folder)) && !is_test_file(path) {
        problems.extend(prints(path, &without_tests(tokens)));
    }
    if PURE.iter().any(|folder| path.starts_with(folder)) && !is_test_file(path) {
        let tokens = without_tests(tokens);
        problems.extend(clocks(path, &tokens));
        problems.extend(impure_modules(path, &tokens));
    }
    problems
}

fn unfinished(path: &str, tokens: &[Token]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for name in ["todo", "unimplemented", "dbg"] {
        let calls = find(tokens, &[name, "!"]);
        // Behind a macro's sign stands a bracket; otherwise it is a comparison.
        for index in calls.into_iter().filter(|index| matches!(at(tokens, index + 2), "(" | "[" | "{")) {
            let what = format!("`{name}!`: finish it or take it out");
            problems.push(Problem::at(path, tokens[index].line, what));
        }
    }
    for index in find(tokens, &["#", "[", "ignore"]) {
        let what = "an ignored test: make it run, or move it to `cargo xtask soak`";
        problems.push(Problem::at(path, tokens[index].line, what));
    }
    problems
}

fn prints(path: &str, tokens: &[Token]) -> Vec<Problem> {
    let calls = ["println", "eprintln", "print", "eprint"].map(|name| find(tokens, &[name, "!"]));
    let problem = |index: usize| {
        let what = format!("`{}!` in a daemon: say it by `starfarm_net::say`", tokens[index].text);
        Problem::at(path, tokens[index].line, what)
    };
    calls.concat().into_iter().map(problem).collect()
}

fn unsafe_code(path: &str, text: &str, tokens: &[Token]) -> Vec<Problem> {
    let allowed = UNSAFE_ALLOWED.iter().any(|(start, _)| path.starts_with(start));
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    for index in find(tokens, &["unsafe"]) {
        let line = tokens[index].line;
        let claims = matches!(at(tokens, index + 1), "{" | "impl");
        if !allowed {
            let what = "unsafe code: find a safe way, or allow this path in xtask's tidy and say what for";
            problems.push(Problem::at(path, line, what));
        } else if claims && !has_safety_comment(&lines, line) {
            let what = "an unsafe block without `// SAFETY:` above it: write why it is sound";
            problems.push(Problem::at(path, line, what));
        }
    }
    problems
}

/// Whether a comment with `SAFETY:` stands on the line, counted from 1, or above the statement it is part of.
fn has_safety_comment(lines: &[&str], line: usize) -> bool {
    let says_why = |line: &str| line.split_once("//").is_some_and(|(_, comment)| comment.contains("SAFETY:"));
    let ends_statement = |line: &str| line.is_empty() || line.ends_with([';', '{', '}', ',']);
    let here = lines.get(line - 1).is_some_and(|line| says_why(line));
    let above = lines[..line - 1].iter().rev().map(|line| line.trim());
    let in_statement = above.take_while(|line| line.starts_with("//") || !ends_statement(line));
    here || in_statement.into_iter().any(says_why)
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The tokens but for what is inside of `#[cfg(test)] mod name { ... }`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    const OPENING: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut kept = Vec::new();
    let mut next = 0;
    for start in find(tokens, &OPENING) {
        let brace = start + OPENING.len() + 1;
        if start >= next && at(tokens, brace) == "{" {
            kept.extend_from_slice(&tokens[next..start]);
            next = closing(tokens, brace) + 1;
        }
    }
    kept.extend_from_slice(&tokens[next..]);
    kept
}

/// The index of the brace that closes the one at `open`; the last index when none does.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

fn clocks(path: &str, tokens: &[Token]) -> Vec<Problem> {
    let calls = ["Instant", "SystemTime"].map(|clock| find(tokens, &[clock, ":", ":", "now"]));
    let problem = |index: usize| {
        let what = format!("`{}::now` in a pure crate: take the time as an argument", tokens[index].text);
        Problem::at(path, tokens[index].line, what)
    };
    calls.concat().into_iter().map(problem).collect()
}

fn impure_modules(path: &str, tokens: &[Token]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for used in used_of_std(tokens) {
        let advice = IMPURE_MODULES.iter().find(|(module, _)| used.text == *module);
        problems.extend(advice.map(|(module, instead)| {
            Problem::at(path, used.line, format!("`std::{module}` in a pure crate: {instead}"))
        }));
    }
    problems
}

/// The words right behind `std::`, alone or as the first words in a list in braces.
fn used_of_std(tokens: &[Token]) -> Vec<&Token> {
    let starts = find(tokens, &["std", ":", ":"]).into_iter().map(|index| index + 3);
    starts
        .flat_map(|start| if at(tokens, start) == "{" { listed(tokens, start) } else { vec![&tokens[start]] })
        .collect()
}

/// The first word of each item in the brace list that opens at `start`.
fn listed(tokens: &[Token], start: usize) -> Vec<&Token> {
    let mut words = Vec::new();
    let mut next = start + 1;
    let end = closing(tokens, start);
    while next < end {
        words.push(&tokens[next]);
        next = behind_item(tokens, next, end);
    }
    words
}

/// The index behind the comma that ends the item at `next`, or `end`.
fn behind_item(tokens: &[Token], mut next: usize, end: usize) -> usize {
    while next < end && at(tokens, next) != "," {
        next = if at(tokens, next) == "{" { closing(tokens, next) } else { next } + 1;
    }
    next + 1
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    fn found(path: &str, code: &str) -> Vec<usize> {
        check(path, code, &tokens::read(code).unwrap()).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_also_inside_of_macros() {
        assert_eq!(found("a.rs", "fn a() {\n    todo!()\n}"), [2]);
        assert_eq!(found("a.rs", "fn a() { unimplemented![] }"), [1]);
        assert_eq!(found("a.rs", "macro_rules! m { () => {\n dbg!(1)\n} }"), [2]);
        assert_eq!(found("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}"), [2]);
    }

    #[test]
    fn strings_comments_and_comparisons_are_no_unfinished_work() {
        assert_eq!(found("a.rs", "// todo!()\nconst A: &str = \"dbg!(1) #[ignore] unsafe\";"), []);
        assert_eq!(found("a.rs", "fn a(todo: u8) -> bool { todo != 1 }"), []);
    }

    #[test]
    fn daemons_print_nothing() {
        let code = "fn a() {\n    eprintln!(\"a\");\n    print!(\"b\");\n}\n#[cfg(test)]\nmod tests {\n    fn a() { println!() }\n}";
        assert_eq!(found("scheduler/src/threads/log.rs", code), [2, 3]);
        assert_eq!(found("worker/core/src/worker.rs", code), [2, 3]);
        assert_eq!(found("exec/src/tests.rs", code), []);
        assert_eq!(found("tests/sim/src/main.rs", code), []);
    }

    #[test]
    fn unsafe_code_stands_only_where_it_is_allowed() {
        let code = "fn a() {\n    // SAFETY: none is needed.\n    unsafe { b() }\n}";
        assert_eq!(found("protocol/src/lib.rs", code), [3]);
        assert_eq!(found("worker/src/receive.rs", code), [3]);
        assert_eq!(found("kernels/src/md5.rs", code), [3]);
        assert_eq!(found("exec/src/process.rs", code), []);
        assert_eq!(found("net/src/send.rs", code), []);
        assert_eq!(found("protocol/src/lib.rs", "#![forbid(unsafe_code)]"), []);
    }

    #[test]
    fn an_unsafe_block_says_why_it_is_sound() {
        let path = "kernels/src/avx2.rs";
        assert_eq!(found(path, "fn a() {\n    unsafe { b() }\n}"), [2]);
        assert_eq!(found(path, "// SAFETY: another one.\nfn a() {\n    unsafe { b() }\n}"), [3]);
        assert_eq!(found(path, "unsafe impl Send for A {}"), [1]);
        assert_eq!(found(path, "unsafe fn a() {}"), []);
        assert_eq!(found(path, "fn a() {\n    let x = unsafe { b() }; // SAFETY: b has no rule.\n}"), []);
    }

    #[test]
    fn the_comment_may_stand_above_the_whole_statement() {
        let code = "fn a() {\n    // SAFETY: `b` takes any number;\n    // so does c.\n    let x: u8 =\n        unsafe { b() };\n}";
        assert_eq!(found("kernels/src/avx2.rs", code), []);
    }

    #[test]
    fn pure_crates_have_no_clock() {
        let code = "fn a() {\n    let t = std::time::Instant::now();\n    SystemTime::now();\n}";
        for folder in PURE {
            assert_eq!(found(&format!("{folder}lib.rs"), code), [2, 3], "{folder}");
        }
        assert_eq!(found("scheduler/src/threads/send.rs", code), []);
        assert_eq!(found("protocol/src/a.rs", "fn a(now: Instant) -> Instant { now }"), []);
    }

    #[test]
    fn pure_crates_have_no_threads_sockets_and_files() {
        let path = "decomposers/src/list.rs";
        assert_eq!(found(path, "use std::fs::File;"), [1]);
        assert_eq!(found(path, "fn a() { std::thread::yield_now() }"), [1]);
        assert_eq!(
            found(path, "use std::{\n    fmt,\n    net::UdpSocket,\n    sync::{Arc, fs},\n    fs,\n};"),
            [3, 5]
        );
        assert_eq!(found(path, "use std::fmt;\nuse core::net::SocketAddr;\nuse std::{io, sync::Arc};"), []);
        assert_eq!(found("admin/src/jobfile.rs", "use std::fs;"), []);
    }

    #[test]
    fn tests_of_a_pure_crate_may_use_threads_but_the_code_around_them_may_not() {
        let code = "use std::fs;\n#[cfg(test)]\nmod tests {\n    fn a() { std::thread::yield_now() }\n}\nuse std::net;";
        assert_eq!(found("protocol/src/seal.rs", code), [1, 6]);
        assert_eq!(found("protocol/src/seal/tests.rs", code), []);
        assert_eq!(found("protocol/src/tests/seal.rs", code), []);
        assert_eq!(found("protocol/src/seal.rs", "#[cfg(test)]\nmod tests;\nuse std::{net};"), [3]);
        assert_eq!(
            found("protocol/src/seal.rs", "#[cfg(test)]\nmod tests {\n    fn a() { todo!() }\n}"),
            [3]
        );
    }
}
