//! What a path, or `-` in its place, holds; and lists in chunks: a file's lines, or the names that a pattern finds.

use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{self, Path, PathBuf};

use starfarm_protocol::ids::ContentHash;
use starfarm_protocol::spec::{Chunk, Space};

/// A chunk ends with the line in which it reaches this many bytes. A worker fetches whole chunks, and
/// this much takes it no longer than a round trip does.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// The name that stands for standard input, where a file is asked for.
pub(super) const STDIN: &str = "-";

/// The content of a file, or of standard input.
pub(super) fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new(STDIN) {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The units of a job.
pub(super) struct Listing {
    pub(super) space: Space,
    /// The chunks of a list; empty for other kinds.
    pub(super) blobs: Vec<Vec<u8>>,
}

/// Cuts `content` into chunks. Only `\n` ends a line; the bytes after the last one are a line too, an
/// empty line is a line.
pub(super) fn cut(content: &[u8]) -> Listing {
    let (mut chunks, mut blobs) = (Vec::new(), Vec::new());
    let mut rest = content;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(chunk_length(rest));
        let mut blob = piece.to_vec();
        if !blob.ends_with(b"\n") {
            blob.push(b'\n');
        }
        let units = blob.iter().filter(|byte| **byte == b'\n').count() as u64;
        chunks.push(Chunk { hash: ContentHash::of(&blob), units });
        blobs.push(blob);
        rest = behind;
    }
    Listing { space: Space::List { chunks }, blobs }
}

/// Bytes up to the end of the line in which the chunk is full.
fn chunk_length(rest: &[u8]) -> usize {
    let full = (CHUNK_BYTES - 1).min(rest.len());
    rest[full..].iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| full + at + 1)
}

/// The lines of the file at `path`, or of standard input where that is `-`. The error is a sentence for the user.
pub(super) fn of_file(path: &Path) -> Result<Listing, String> {
    list_content(path).map(|content| cut(&content))
}

/// Its bytes, at least one.
pub(super) fn list_content(path: &Path) -> Result<Vec<u8>, String> {
    let content = content(path)
        .map_err(|e| format!("cannot read the list `{}`: {e}; check the path", path.display()))?;
    if content.is_empty() {
        return Err(format!("the list `{}` is empty: give it at least one line", path.display()));
    }
    Ok(content)
}

/// The files that `pattern`, relative to `base`, matches: their absolute paths, since a worker's folder
/// is another one; sorted by their bytes. Hidden files need a pattern with a dot, as in a shell. The
/// error is a sentence for the user.
pub(super) fn of_glob(pattern: &str, base: &Path) -> Result<Listing, String> {
    let base = path::absolute(if base.as_os_str().is_empty() { Path::new(".") } else { base })
        .map_err(|e| format!("the current directory cannot be found: {e}; change to one that exists"))?;
    let mut files =
        matches(pattern, &base)?.into_iter().map(|file| file.into_os_string().into_vec()).collect::<Vec<_>>();
    files.sort_unstable();
    if let Some(name) = files.iter().find(|name| name.contains(&b'\n')) {
        return Err(format!(
            "the name {:?} has a line break in it and cannot be a line of a list: rename the file",
            String::from_utf8_lossy(name)
        ));
    }
    if files.is_empty() {
        return Err(format!("the pattern `{pattern}` matches no file under `{}`: change it", base.display()));
    }
    Ok(cut(&files.join(&b'\n')))
}

/// `base` is absolute.
pub(super) fn matches(pattern: &str, base: &Path) -> Result<Vec<PathBuf>, String> {
    let pattern = pattern.trim_start_matches("./");
    let matcher = globset::GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|e| format!("the pattern `{pattern}` cannot be read: {}; change it", e.kind()))?
        .compile_matcher();
    // As in a shell, a hidden name is meant only by a pattern that says so.
    let hidden = pattern.starts_with('.') || pattern.contains("/.");
    let meant = |entry: &walkdir::DirEntry| {
        hidden || entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".")
    };
    let root = base.join(fixed(pattern));
    if !root.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(root).follow_links(true).into_iter().filter_entry(meant) {
        let entry = match entry {
            Ok(entry) => entry,
            // A link that leads nowhere, or a folder of somebody else's, is of no matter where nothing of it is meant.
            Err(e)
                if e.path()
                    .is_some_and(|path| !is_meant(named(path, pattern, base), &e, pattern, &matcher)) =>
            {
                continue;
            }
            Err(e) => {
                return Err(format!(
                    "the pattern `{pattern}` leads to what cannot be read: {e}: remove it, or change the pattern"
                ));
            }
        };
        if entry.file_type().is_file() && matcher.is_match(named(entry.path(), pattern, base)) {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

/// A path as a pattern means it.
fn named<'a>(path: &'a Path, pattern: &str, base: &Path) -> &'a Path {
    match Path::new(pattern).is_absolute() {
        true => path,
        false => path.strip_prefix(base).unwrap_or(path),
    }
}

/// What cannot be read may match a pattern, or a folder have something beneath it that does.
fn is_meant(name: &Path, error: &walkdir::Error, pattern: &str, matcher: &globset::GlobMatcher) -> bool {
    let is_nowhere = |e: &std::io::Error| {
        e.kind() == std::io::ErrorKind::NotFound
            || e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
    };
    let leads_nowhere = error.loop_ancestor().is_some() || error.io_error().is_some_and(is_nowhere);
    let depth = |path: &Path| path.components().count();
    let may_lead = pattern.contains("**") || depth(name) < depth(Path::new(pattern));
    matcher.is_match(name) || (may_lead && !leads_nowhere)
}

/// The folders and names that a pattern begins with before anything in it can match differently.
fn fixed(pattern: &str) -> PathBuf {
    let plain = |part: &path::Component<'_>| {
        !part.as_os_str().as_bytes().iter().any(|byte| b"*?[]{}\\".contains(byte))
    };
    Path::new(pattern).components().take_while(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(lines: &Listing) -> Vec<u64> {
        let Space::List { chunks } = &lines.space else { panic!("a list") };
        chunks.iter().map(|chunk| chunk.units).collect()
    }

    #[test]
    fn names_that_are_not_text_are_matched_too_and_hidden_ones_only_when_meant() {
        use std::ffi::OsStr;
        let dir = std::env::temp_dir().join(format!("starfarm-glob-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a/.b")).unwrap();
        for name in [&b"a/\xff.png"[..], b"a/x.png", b"a/.h.png", b"a/.b/y.png", b"a/x.txt"] {
            std::fs::write(dir.join(OsStr::from_bytes(name)), "").unwrap();
        }
        let found = |pattern: &str| {
            let mut names: Vec<_> = matches(pattern, &dir).unwrap();
            names.sort();
            let name = |path: &PathBuf| path.strip_prefix(&dir).unwrap().as_os_str().as_bytes().to_vec();
            names.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(found("a/*.png"), [&b"a/x.png"[..], b"a/\xff.png"]);
        assert_eq!(found("./a/?.png"), [&b"a/x.png"[..], b"a/\xff.png"]);
        assert_eq!(found("**/.h*"), [b"a/.h.png"]);
        assert_eq!(found("a/x.txt"), [b"a/x.txt"]);
        assert_eq!(found("none/*"), Vec::<Vec<u8>>::new());
        let absolute = dir.join("a/*.txt");
        assert_eq!(found(absolute.to_str().unwrap()), [b"a/x.txt"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_link_that_leads_nowhere_matters_only_to_a_pattern_that_it_matches() {
        let dir = std::env::temp_dir().join(format!("starfarm-nowhere-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a")).unwrap();
        for name in ["in.txt", "a/in.txt"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("nothing", dir.join("dangling.png")).unwrap();
        std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
        std::os::unix::fs::symlink(".", dir.join("a/again")).unwrap();
        for (pattern, count) in [("in*", 1), ("*/in.txt", 1), ("**/*.txt", 2), ("*.txt", 1)] {
            assert_eq!(matches(pattern, &dir).unwrap().len(), count, "{pattern}");
        }
        for pattern in ["*.png", "**/d*", "loo*"] {
            let why = matches(pattern, &dir).unwrap_err();
            assert!(why.contains("remove it, or change the pattern"), "{why}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_last_line_may_lack_its_newline() {
        for (content, blob, count) in
            [("a\nb", "a\nb\n", 2), ("a\nb\n", "a\nb\n", 2), ("\n\na\r\n", "\n\na\r\n", 3), ("a", "a\n", 1)]
        {
            let lines = cut(content.as_bytes());
            assert_eq!(lines.blobs, [blob.as_bytes()], "{content:?}");
            assert_eq!(units(&lines), [count], "{content:?}");
        }
    }

    #[test]
    fn chunks_end_at_lines_and_lose_nothing() {
        let line = [b'x'; 99].iter().chain(b"\n").copied().collect::<Vec<_>>();
        let content = line.repeat(2_000);
        let lines = cut(&content);
        // 656 lines of 100 bytes are the first to reach 65 536.
        assert_eq!(units(&lines), [656, 656, 656, 32]);
        assert_eq!(lines.blobs.concat(), content);
        let Space::List { chunks } = &lines.space else { panic!("a list") };
        for (chunk, blob) in chunks.iter().zip(&lines.blobs) {
            assert_eq!(chunk.hash, ContentHash::of(blob));
        }
    }

    #[test]
    fn a_chunk_may_be_full_exactly_at_a_line() {
        let mut content = vec![b'x'; CHUNK_BYTES - 1];
        content.extend_from_slice(b"\nlast");
        assert_eq!(units(&cut(&content)), [1, 1]);
        let content = vec![b'\n'; CHUNK_BYTES * 2];
        assert_eq!(units(&cut(&content)), [CHUNK_BYTES as u64; 2]);
    }

    #[test]
    fn a_line_longer_than_a_chunk_stays_whole() {
        let content = vec![b'x'; CHUNK_BYTES * 3];
        let lines = cut(&content);
        assert_eq!(units(&lines), [1]);
        assert_eq!(lines.blobs[0].len(), CHUNK_BYTES * 3 + 1);
    }
}
