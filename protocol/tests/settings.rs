//! The table of settings in `docs/operations.md` says what the program goes by.
#![allow(missing_docs, clippy::unwrap_used)]

use starfarm_protocol::settings::SETTINGS;

#[test]
fn the_page_has_each_setting_with_its_unit_range_and_default() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    for setting in &SETTINGS {
        let begins = format!("| `{}`, `--{}` | ", setting.key, setting.flag);
        let row = page.lines().find(|line| line.starts_with(&begins));
        let row = row.unwrap_or_else(|| panic!("no row begins with {begins}"));
        let figures =
            format!(" | {} | {} to {} | {} | ", setting.unit, setting.least, setting.most, setting.default);
        assert!(row.contains(&figures), "{row} says other than {figures}");
    }
}
