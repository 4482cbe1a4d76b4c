//! Small made-up crates, with and without circles.

use super::*;

/// The circles of a crate of these files below `src/`, each as its lines but the first.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let manifest = ("a/Cargo.toml".to_owned(), "");
    let sources = files.iter().map(|(path, text)| (format!("a/src/{path}"), *text));
    let all: Vec<(String, &str)> = std::iter::once(manifest).chain(sources).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let lines =
        |problem: &Problem| problem.what.lines().skip(1).map(str::trim).collect::<Vec<_>>().join("; ");
    check(&Tree::of(&all)).iter().map(lines).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod one; mod two;");

/// `one` uses `two`.
const ONE: (&str, &str) = ("one.rs", "use crate::two::Two;\npub struct One(Two);");

const CIRCLE: &str = "a/src/one.rs:1 uses `Two` of a/src/two.rs; a/src/two.rs:1 uses `One` of a/src/one.rs";

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    assert!(found(&[ROOT, ONE, ("two.rs", "pub struct Two;")]).is_empty());
    assert_eq!(found(&[ROOT, ONE, ("two.rs", "use super::one::One; pub struct Two;")]), [CIRCLE]);
    assert_eq!(found(&[ROOT, ONE, ("two.rs", "use crate::{one::{self, One}}; pub struct Two;")]), [CIRCLE]);
}

#[test]
fn a_path_in_code_counts_like_an_import_also_inside_of_a_macro() {
    for two in [
        "pub struct Two; fn f(_: crate::one::One) {}",
        "pub struct Two; fn f() { println!(\"{}\", super::one::One) }",
        "pub struct Two; fn f() { use crate::one; one::One::new() }",
        "pub struct Two; fn f() { let _ = vec![Some(crate::one::One { x: 1 })]; }",
    ] {
        assert_eq!(found(&[ROOT, ONE, ("two.rs", two)]), [CIRCLE], "{two}");
    }
}

#[test]
fn what_only_tests_use_does_not_count() {
    for two in [
        "pub struct Two; #[cfg(test)] mod tests { use crate::one::One; }",
        "pub struct Two; #[cfg(test)] mod tests;",
        "pub struct Two; #[cfg(test)] use crate::one::One;",
        "pub struct Two; #[cfg(test)] impl Two { fn one() -> crate::one::One {} }",
    ] {
        assert!(
            found(&[ROOT, ONE, ("two.rs", two), ("two/tests.rs", "use crate::one::One;")]).is_empty(),
            "{two}"
        );
    }
}

#[test]
fn text_about_a_file_does_not_count() {
    assert!(
        found(&[
            ROOT,
            ONE,
            ("two.rs", "//! See [crate::one::One].\npub struct Two;\nconst A: &str = \"crate::one::One\";")
        ])
        .is_empty()
    );
}

#[test]
fn a_parent_that_only_declares_and_re_exports_needs_nothing() {
    let child = ("two/child.rs", "use super::Kept;\npub struct Two;");
    let keeps = "pub struct Kept;\nmod child;\npub use child::Two;";
    assert!(found(&[ROOT, ONE, ("two.rs", keeps), child]).is_empty());
    let uses = format!("{keeps}\nfn f() -> Two {{}}");
    let both =
        "a/src/two.rs:4 uses `Two` of a/src/two/child.rs; a/src/two/child.rs:1 uses `Kept` of a/src/two.rs";
    assert_eq!(found(&[ROOT, ONE, ("two.rs", &uses), child]), [both]);
    assert_eq!(found(&[ROOT, ONE, ("two/mod.rs", &uses), child]).len(), 1);
}

#[test]
fn a_re_export_leads_to_where_the_name_is_declared() {
    let root = ("lib.rs", "mod one; mod two; pub use one::One;");
    assert_eq!(found(&[root, ONE, ("two.rs", "use crate::One; pub struct Two;")]), [CIRCLE]);
    let root = ("lib.rs", "mod one; mod two; pub use one::*;");
    assert_eq!(found(&[root, ONE, ("two.rs", "use crate::One; pub struct Two;")]), [CIRCLE]);
}

#[test]
fn a_method_of_self_leads_to_the_file_that_gives_it() {
    let one = ("one.rs", "impl super::two::Two { pub fn first(&self) { self.second() } }");
    let with = |call: &str| format!("pub struct Two; impl Two {{ pub fn second(&self) {{ {call} }} }}");
    assert!(found(&[ROOT, one, ("two.rs", &with("self.second()"))]).is_empty());
    for call in ["self.first()", "Self::first(self)", "print!(\"{}\", self.first())"] {
        let back = "a/src/one.rs:1 uses `Two` of a/src/two.rs; a/src/two.rs:1 uses `first` of a/src/one.rs";
        assert_eq!(found(&[ROOT, one, ("two.rs", &with(call))]), [back], "{call}");
    }
    assert_eq!(found(&[ROOT, one, ("two.rs", &with("Two::first(self)"))]).len(), 1);
}

#[test]
fn a_method_of_another_value_is_told_by_its_name_if_only_one_type_has_it() {
    let one = "use super::two::Two;\nimpl Two { pub fn first(&self) {} }";
    let two = "pub struct Two; impl Two { fn second(&self) {} }\nfn f(two: &Two) { two.first() }";
    let back = "a/src/one.rs:1 uses `Two` of a/src/two.rs; a/src/two.rs:2 uses `first` of a/src/one.rs";
    assert_eq!(found(&[ROOT, ("one.rs", one), ("two.rs", two)]), [back]);
    let other = format!("{two} struct Other; impl Other {{ fn first(&self) {{}} }}");
    assert!(found(&[ROOT, ("one.rs", one), ("two.rs", &other)]).is_empty(), "either type's");
    let elsewhere = [
        ("lib.rs", "mod one; mod two; mod three;"),
        ("three.rs", "pub struct Three; fn f(x: &[u8]) { x.first() }"),
    ];
    let needs_three = format!("{one} struct Own(super::three::Three);");
    let two = two.replace("two.first()", "()");
    assert!(
        found(&[elsewhere[0], elsewhere[1], ("one.rs", &needs_three), ("two.rs", &two)]).is_empty(),
        "a slice's"
    );
}

#[test]
fn a_method_that_is_not_shown_is_not_what_another_file_calls() {
    let one = "use super::two::Two;\nimpl Two { fn first(&self) {} }";
    let two = "pub struct Two; impl Two { fn second(&self) {} }\nfn f(two: &[u8]) { two.first() }";
    assert!(found(&[ROOT, ("one.rs", one), ("two.rs", two)]).is_empty());
    let shown = one.replace("fn", "pub(crate) fn");
    assert_eq!(found(&[ROOT, ("one.rs", &shown), ("two.rs", two)]).len(), 1);
}

#[test]
fn a_module_and_a_function_of_one_name_are_told_apart() {
    let root = ("lib.rs", "mod one; mod two; pub fn two() { one::f() }");
    assert!(
        found(&[
            root,
            ("one.rs", "use crate::two::{self, Two}; pub fn f() { two::g() }"),
            ("two.rs", "pub struct Two; pub fn g() {}")
        ])
        .is_empty()
    );
}
