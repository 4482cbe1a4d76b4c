//! Takes the report's page into the crate, where `cargo xtask dashboard` has built it. Without it the crate builds
//! all the same, and says so when a page is asked for.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dashboard = manifest.join("../dashboard");
    let page = dashboard.join("dist/report.html");
    let is_built = page.is_file();
    // A file that is not there would count as changed, and all of this be built again each time.
    let watched: &Path = if is_built { &page } else { &dashboard };
    println!("cargo::rerun-if-changed=build.rs");
    if watched.exists() {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let template = match is_built {
        true => format!("Some(include_str!({:?}))", page.display().to_string()),
        false => "None".to_owned(),
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("template.rs");
    fs::write(out, format!("const TEMPLATE: Option<&str> = {template};\n"))
        .expect("the build folder can be written");
}
