//! The schemas that are shipped, and documents checked against them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The schemas by the file's name.
pub(crate) struct Schemas(BTreeMap<String, jsonschema::Validator>);

impl Schemas {
    pub(crate) fn load() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let load = |path: PathBuf| {
            let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), validator)
        };
        let files = std::fs::read_dir(folder).unwrap();
        Self(files.map(|file| load(file.unwrap().path())).collect())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What is wrong with a document.
    pub(crate) fn errors(&self, name: &str, text: &str) -> Vec<String> {
        let json: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        self.0[name].iter_errors(&json).map(|error| error.to_string()).collect()
    }

    /// Nothing may be.
    #[track_caller]
    pub(crate) fn check(&self, name: &str, text: &str) {
        let errors = self.errors(name, text);
        assert!(errors.is_empty(), "{name}: {errors:#?}\n{text}");
    }
}
