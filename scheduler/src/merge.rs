//! Merging the results of jobs: what is asked for and how it stands, beside the jobs themselves. A merge is no part of a
//! job's accounting: it reads what ended jobs have left, and can be done again at any time. Its result lies in `merged` in
//! the state directory, and the file `ID.json` there says for which end of the job it was made.

mod fold;
mod goes_on;
mod inputs;
mod merges;
mod program;

#[cfg(test)]
mod tests;

pub(crate) use inputs::{Results, merge};
pub(crate) use merges::Merges;
