//! The section `[space]`: what the units are.

use std::path::Path;

use starfarm_decomposers::chars::POSITIONS_MAX;
use starfarm_decomposers::grid::Grid;
use starfarm_decomposers::units;
use starfarm_protocol::spec::{Axis, HexBytes, OwnSpace, Space};

use super::error::JobFileError;
use super::job::absolute;
use super::lines::{self, Listing};
use super::mask::{self, Custom, MaskError};
use super::program;
use super::table::{Item, Kind, Section};
use super::task::{SECONDS_MAX, milliseconds};

const KINDS: [Kind; 6] = [
    Kind { name: "chars", keys: &["mask", "alphabets", "alphabet", "min", "max"] },
    Kind { name: "range", keys: &["from", "to", "step"] },
    Kind { name: "frames", keys: &["first", "last"] },
    Kind { name: "list", keys: &["file", "glob"] },
    Kind { name: "grid", keys: &["grid"] },
    Kind { name: "program", keys: &["program", "names", "timeout_seconds"] },
];

/// Reads the section and checks that the space can be opened.
pub(super) fn read(section: &Section<'_>, base: &Path) -> Result<Listing, JobFileError> {
    let space = match KINDS[section.select("kind", &KINDS, &[])?].name {
        "chars" => chars(section)?,
        "range" => range(section)?,
        "frames" => frames(section)?,
        "list" => return list(section, base),
        "program" => own(section, base)?,
        _ => grid(section)?,
    };
    Ok(Listing { space, blobs: Vec::new() })
}

/// `space` if it can be opened, else its error at `item`.
fn checked(space: Space, item: &Item<'_>) -> Result<Space, JobFileError> {
    units(&space).map_err(|e| item.error(e))?;
    Ok(space)
}

fn chars(section: &Section<'_>) -> Result<Space, JobFileError> {
    let hint = "mask = \"?l?l?d\", or alphabet = \"abc\" with min = 1 and max = 6";
    let item = section.either("a space of characters", ["mask", "alphabet"], hint)?;
    match &*item.name {
        "mask" => of_mask(section, &item),
        _ => of_alphabet(section, &item),
    }
}

fn of_mask(section: &Section<'_>, mask: &Item<'_>) -> Result<Space, JobFileError> {
    for key in ["min", "max"] {
        if let Some(item) = section.get(key) {
            return Err(
                item.error(format!("`{key}` goes with `alphabet`, but a mask has one length: remove it"))
            );
        }
    }
    let custom = section.read("alphabets", custom_alphabets)?.unwrap_or_default();
    let positions = mask::positions(mask.string()?, &custom).map_err(|e| inside(mask, e))?;
    let min = positions.len();
    if positions.is_empty() {
        return Err(mask.error("the mask has no positions: give at least one, such as ?l or a letter"));
    }
    checked(Space::Chars { positions, min }, mask)
}

fn custom_alphabets(item: &Item<'_>) -> Result<Custom, JobFileError> {
    let table = item.table()?;
    table.only(&["1", "2", "3", "4"])?;
    let mut custom = Custom::default();
    for (slot, name) in custom.iter_mut().zip(["1", "2", "3", "4"]) {
        *slot = table.read(name, own_alphabet)?;
    }
    Ok(custom)
}

fn own_alphabet(item: &Item<'_>) -> Result<Vec<u8>, JobFileError> {
    let bytes = mask::alphabet(item.string()?).map_err(|e| inside(item, e))?;
    if bytes.is_empty() {
        return Err(item.error(format!("`{}` is empty: give at least one character", item.name)));
    }
    Ok(bytes)
}

fn of_alphabet(section: &Section<'_>, alphabet: &Item<'_>) -> Result<Space, JobFileError> {
    if let Some(item) = section.get("alphabets") {
        return Err(item.error("`alphabets` goes with `mask`, but this space has `alphabet`: remove it"));
    }
    let bytes = own_alphabet(alphabet)?;
    let max = section.require("max", "the longest length, e.g. max = 6")?;
    let longest = max.integer_within(1, POSITIONS_MAX as u64)? as usize;
    let min = section.read("min", |min| min.integer_within(1, longest as u64))?.unwrap_or(1) as usize;
    checked(Space::Chars { positions: vec![HexBytes(bytes); longest], min }, alphabet)
}

fn inside(item: &Item<'_>, error: MaskError) -> JobFileError {
    item.error_inside(error.offset, error.message)
}

fn range(section: &Section<'_>) -> Result<Space, JobFileError> {
    let from = section.require("from", "the first integer, e.g. from = 0")?;
    let to = section.require("to", "the end, exclusive, e.g. to = 100")?;
    let step = section.get("step");
    let space = Space::Range {
        from: from.integer()?,
        to: to.integer()?,
        step: step.as_ref().map_or(Ok(1), Item::integer)?,
    };
    match (units(&space), step) {
        (Ok(_), _) => Ok(space),
        (Err(e), Some(step)) if step.integer()? == 0 => Err(step.error(e)),
        (Err(e), _) => Err(to.error(e)),
    }
}

fn frames(section: &Section<'_>) -> Result<Space, JobFileError> {
    let first = section.require("first", "the first frame, e.g. first = 1")?;
    let last = section.require("last", "the last frame, inclusive, e.g. last = 250")?;
    checked(Space::Frames { first: first.integer()?, last: last.integer()? }, &last)
}

fn list(section: &Section<'_>, base: &Path) -> Result<Listing, JobFileError> {
    let hint = "file = \"lines.txt\", or glob = \"frames/*.png\"";
    let item = section.either("a list", ["file", "glob"], hint)?;
    let lines = match &*item.name {
        "file" => lines::of_file(&base.join(item.string()?)),
        _ => lines::of_glob(item.string()?, base),
    };
    let lines = lines.map_err(|message| item.error(message))?;
    Ok(Listing { space: checked(lines.space, &item)?, ..lines })
}

/// A batch of units may take so long, unless the user says otherwise.
const BATCH_MS: u64 = 60_000;

fn own(section: &Section<'_>, base: &Path) -> Result<Space, JobFileError> {
    let item = section.require("program", "what names the units, e.g. program = [\"./cases.py\"]")?;
    let program = program::here(&item, base, "./cases.py")?;
    let names = section.read("names", |item| {
        let names = item.array("a list of names")?;
        names.iter().map(|name| name.string().map(str::to_owned)).collect::<Result<Vec<_>, _>>()
    })?;
    let timeout = section.read("timeout_seconds", |item| item.seconds(SECONDS_MAX))?;
    let timeout_ms = timeout.map_or(BATCH_MS, milliseconds);
    let (names, cwd) = (names.unwrap_or_default(), absolute(base));
    checked(Space::Program(Box::new(OwnSpace { program, names, cwd, timeout_ms })), &item)
}

fn grid(section: &Section<'_>) -> Result<Space, JobFileError> {
    let grid =
        section.require("grid", "a table of lists, e.g. grid = { size = [1, 2], mode = [\"a\", \"b\"] }")?;
    let mut axes = Vec::new();
    for item in grid.table()?.items() {
        let values = item.array("a list of strings, numbers or booleans")?;
        let values = values.iter().map(Item::scalar).collect::<Result<_, _>>()?;
        let axis = Axis { name: item.name.clone(), values };
        Grid::new(std::slice::from_ref(&axis)).map_err(|e| item.error(e.to_string()))?;
        axes.push(axis);
    }
    checked(Space::Grid { axes }, &grid)
}
