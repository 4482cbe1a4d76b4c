//! Modules in C, built here: what they are asked, what they may say, and what is none.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use starfarm_agent_core::named::{Amount, Named};
use starfarm_agent_core::{Context, Hook, Order, Runtime, Stage, Triples, Who, Word};

use super::load;
use crate::words::OwnFile;

const ECHO: &str = include_str!("echo.c");
const POWER: &str = include_str!("../../../examples/modules/power.c");

/// A folder that goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("starfarm-library-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Builds `NAME.so`.
    fn build(&self, name: &str, source: &str) -> PathBuf {
        let (source, library) = (self.put(&format!("{name}.c"), source), self.0.join(format!("{name}.so")));
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/modules");
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-I"]).arg(header);
        let built = cc.arg("-o").args([&library, &source]).status();
        assert!(built.unwrap().success(), "a linker is there, or this test would not be");
        library
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Said = Vec<(u32, Vec<u8>)>;

#[derive(Clone, Default)]
struct Heard(Rc<RefCell<Vec<Said>>>);

impl Stage for Heard {
    fn edge_made(&mut self, _: Hook<'_>) -> Result<(), String> {
        Ok(())
    }

    fn data(&mut self, _: usize, values: Triples<'_>, _: &mut Context<'_>) {
        let values = values.into_iter().map(|triple| (triple.id.0, triple.value.to_vec()));
        self.0.borrow_mut().push(values.collect());
    }
}

/// A stage `tried` of a module, and what comes of it.
struct Bench {
    runtime: Runtime,
    heard: Heard,
}

fn link(from: (&str, &str), to: (&str, &str)) -> Order {
    Order::Link((from.0.into(), from.1.to_owned()), (to.0.into(), to.1.to_owned()))
}

impl Bench {
    fn of(library: &Path, type_name: &str) -> Self {
        let mut runtime = Runtime::new(&[]);
        load(library).unwrap().iter().for_each(|of| runtime.learn(*of).unwrap());
        let mut bench = Self { runtime, heard: Heard::default() };
        bench.runtime.add("heard", Box::new(bench.heard.clone()), Some("heard")).unwrap();
        let create = Order::Create { type_name: type_name.to_owned(), name: Some("tried".to_owned()) };
        bench.order(create).unwrap();
        bench
    }

    fn order(&mut self, order: Order) -> Result<(), String> {
        self.runtime.order(order, 7_000_000).map(drop).map_err(|refusal| refusal.to_string())
    }

    fn tell(&mut self, word: Word) -> Result<(), String> {
        self.order(Order::Tell(Who::from("tried"), word))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.tell(Word::Set { key: key.to_owned(), value: value.to_owned() })
    }

    fn fire(&mut self) -> Vec<Said> {
        self.tell(Word::Fired(vec!["one".to_owned(), "two".to_owned()])).unwrap();
        self.heard.0.take()
    }

    /// Its timers fire in that mode: what its first call is answered, and the values that were not taken.
    fn tries(&mut self, mode: &str) -> (u64, u64) {
        self.set("mode", mode).unwrap();
        let before = self.runtime.losses().not_taken;
        let said = self.fire().pop().unwrap();
        (number(&said, 4), self.runtime.losses().not_taken - before)
    }
}

fn value(said: &Said, id: u32) -> &[u8] {
    &said.iter().find(|(known, _)| *known == id).unwrap().1
}

fn number(said: &Said, id: u32) -> u64 {
    u64::from_le_bytes(value(said, id).try_into().unwrap())
}

#[test]
fn a_module_in_c_is_asked_all_that_a_stage_is() {
    let folder = Folder::new("asked");
    let mut bench = Bench::of(&folder.build("echo", ECHO), "echo");
    assert_eq!(bench.order(link(("tried", "bad"), ("heard", "in"))), Err("there is no `bad` ".to_owned()));
    let silent = bench.order(link(("tried", "out"), ("tried", "in")));
    assert!(silent.unwrap_err().contains("ring"));
    bench.order(link(("tried", "first"), ("heard", "in"))).unwrap();
    bench.order(link(("tried", "second"), ("heard", "in"))).unwrap();
    assert_eq!(bench.set("colour", "red"), Err("x".repeat(256)));
    assert!(bench.set("mode", "a\0b").unwrap_err().contains("no byte 0"));
    bench.set("mode", "good").unwrap();
    let said = bench.fire().pop().unwrap();
    let named: Vec<_> = said.iter().filter(|(id, _)| *id == 1).map(|(_, name)| name.as_slice()).collect();
    assert_eq!(named, [b"one", b"two"]);
    assert_eq!((number(&said, 2), number(&said, 3), value(&said, 5)), (1, 7_000_000, &b"good"[..]));
    let bytes = Triples::written(
        said.iter()
            .map(|(id, value)| starfarm_agent_core::Triple { id: starfarm_agent_core::ValueId(*id), value }),
    );
    let named = Triples::read(&bytes).unwrap().into_iter().find_map(|triple| Named::read(&triple));
    assert_eq!(named, Some(Named { name: "echo.value", amount: Amount::of(-1.5) }));
    // What comes back of its values, and then of what it is asked in the same turn.
    bench.set("mode", "wave").unwrap();
    assert_eq!(bench.fire().pop().unwrap(), [(9, vec![])]);
    let create = Order::Create { type_name: "plain".to_owned(), name: Some("plain".to_owned()) };
    bench.order(create).unwrap();
    assert!(bench.order(link(("plain", "left"), ("heard", "in"))).unwrap_err().contains("`out`, not `left`"));
    let word = Word::Set { key: "a".to_owned(), value: String::new() };
    assert_eq!(bench.order(Order::Tell("plain".into(), word)), Err("`plain` has no settings".to_owned()));
    bench.order(Order::Unlink(("tried".into(), "second".into()), ("heard".into(), "in".into()))).unwrap();
    // The number of an output that has no edges is no reason to count.
    let before = bench.runtime.losses().not_taken;
    assert_eq!(bench.fire(), [] as [Said; 0]);
    assert_eq!(bench.runtime.losses().not_taken, before + 100);
    bench.order(Order::End("tried".into())).unwrap();
}

#[test]
fn values_go_through_a_module_in_c_and_what_is_left_of_it_is_destroyed() {
    let folder = Folder::new("through");
    let mut bench = Bench::of(&folder.build("echo", ECHO), "echo");
    let again = Order::Create { type_name: "echo".to_owned(), name: Some("again".to_owned()) };
    bench.order(again.clone()).unwrap();
    let silent = bench.order(link(("tried", "out"), ("again", "silent"))).unwrap_err();
    assert_eq!(silent, "it is refused, and the module does not say why");
    bench.order(link(("tried", "out"), ("again", "in"))).unwrap();
    bench.order(link(("again", "out"), ("heard", "in"))).unwrap();
    let said = bench.fire().pop().unwrap();
    assert_eq!((number(&said, 3), number(&said, 4)), (2, 7_000_000), "each id is one more");
    for _ in 0..3 {
        bench.order(Order::End("again".into())).unwrap();
        bench.order(again.clone()).unwrap();
    }
    bench.order(link(("tried", "out"), ("heard", "in"))).unwrap();
    let said = bench.fire().pop().unwrap();
    assert_eq!((number(&said, 2), value(&said, 5)), (2, &b"no out"[..]));
}

#[test]
fn what_a_module_in_c_sends_is_checked_and_counted() {
    let folder = Folder::new("checked");
    let mut bench = Bench::of(&folder.build("echo", ECHO), "echo");
    bench.order(link(("tried", "out"), ("heard", "in"))).unwrap();
    // It counts 100 itself each time.
    assert_eq!(bench.tries("good"), (0, 100));
    for bad in ["malformed", "null", "long", "triples", "elsewhere"] {
        assert_eq!(bench.tries(bad), (1, 101), "{bad}");
    }
    assert_eq!(bench.tries("thread"), (1, 100), "from another thread nothing is taken, nor counted");
    bench.set("mode", "flood").unwrap();
    assert_eq!(bench.fire().len(), 4_096);
    // One that could not be made has no edges, no settings, and nobody destroys it.
    let create = Order::Create { type_name: "none".to_owned(), name: Some("none".to_owned()) };
    bench.order(create).unwrap();
    let why = bench.order(link(("none", "out"), ("heard", "in"))).unwrap_err();
    assert_eq!(why, "the module could not make a `none`");
    bench.order(Order::Tell("none".into(), Word::Fired(vec![]))).unwrap();
    bench.order(Order::End("none".into())).unwrap();
    assert_eq!(bench.tries("good"), (0, 100));
}

/// What is said of a node's own file that names this module.
fn refused(folder: &Folder, module: &str) -> String {
    let path = folder.put("agent.toml", &format!("\nmodules = [\"cpuload\", \"./{module}\"]\n"));
    let file = OwnFile::read(&path).unwrap();
    assert_eq!(file.libraries(), [folder.0.join(format!("./{module}")).display().to_string()]);
    let why = file.check().unwrap_err().to_string();
    why.strip_prefix(&format!("{}:2:23: ", path.display())).unwrap().to_owned()
}

#[test]
fn what_is_no_module_is_refused_with_its_place() {
    let folder = Folder::new("refused");
    folder.put("text.so", "this is text");
    fs::create_dir(folder.0.join("folder.so")).unwrap();
    folder.build("empty", "int nothing;\n");
    let of = |name: &str, from: &str, to: &str| {
        assert!(ECHO.contains(from));
        folder.build(name, &ECHO.replacen(from, to, 1));
    };
    let table = "STARFARM_MODULE_VERSION, 3, \"echo\"";
    of("old", table, "7, 3, \"echo\"");
    of("none", "return &table;", "(void)table; return NULL;");
    of("few", table, "STARFARM_MODULE_VERSION, 0, \"echo\"");
    of("many", table, "STARFARM_MODULE_VERSION, 1001, \"echo\"");
    of("latin", table, "STARFARM_MODULE_VERSION, 3, \"\\xE9\"");
    of("nameless", table, "STARFARM_MODULE_VERSION, 3, NULL");
    of("latin_type", "\"plain\"", "\"\\xE9\"");
    of("dotted", "\"plain\"", "\"pl.ain\"");
    of("twice", "\"plain\"", "\"echo\"");
    of("known", "\"plain\"", "\"cpuload\"");
    of("uncreated", "\"plain\", .create = create", "\"plain\"");
    of(
        "unlinked",
        "static int alive;",
        "int missing(void); int (*linked)(void) = missing; static int alive;",
    );
    for (module, why) in [
        ("nowhere.so", "nowhere.so: No such file"),
        ("text.so", "text.so is no shared object that can be loaded here: "),
        ("folder.so", "folder.so is no file"),
        ("unlinked.so", "undefined symbol: missing"),
        ("empty.so", "empty.so is no module: it has no function `starfarm_module`"),
        ("old.so", "is a module of version 7 of `starfarm_module.h`, and this release loads version 1"),
        ("none.so", "its `starfarm_module` gives nothing"),
        ("few.so", "has 0 types of stages: write 1 to 1000"),
        ("many.so", "has 1001 types of stages"),
        ("latin.so", "has a name that is no UTF-8 text"),
        ("nameless.so", "has a name that is not there"),
        ("latin_type.so", "has a type of stages whose name is no UTF-8 text"),
        ("dotted.so", "has a type of stages whose name is `pl.ain`: write 1 to 64"),
        ("twice.so", "there is another type of stages `echo`"),
        ("known.so", "there is another type of stages `cpuload`"),
        ("uncreated.so", "has no `create` for its type `plain`"),
    ] {
        let said = refused(&folder, module);
        assert!(said.contains(why), "{module}: {said}");
    }
}

#[test]
fn the_example_tells_a_number_of_a_file_and_how_fast_one_grows() {
    let folder = Folder::new("power");
    folder.build("power", POWER);
    let meter = folder.put("meter", "1000000\n");
    let mut bench = Bench::of(&folder.0.join("power.so"), "power");
    bench.order(link(("tried", "out"), ("heard", "in"))).unwrap();
    let figure = |bench: &mut Bench, now_s: u64| {
        let fired = Order::Tell("tried".into(), Word::Fired(vec!["t".to_owned()]));
        bench.runtime.order(fired, now_s * 1_000_000).unwrap();
        let said = bench.heard.0.take().pop()?;
        let value = said[0].1.strip_prefix(b"\x0bpower.watts")?;
        Some(f64::from_le_bytes(value.try_into().unwrap()))
    };
    assert_eq!(figure(&mut bench, 1), None, "without a file");
    bench.set("file", meter.to_str().unwrap()).unwrap();
    assert_eq!(figure(&mut bench, 2), None, "for the first time");
    folder.put("meter", "81000000\n");
    assert_eq!(figure(&mut bench, 4), Some(40.0));
    folder.put("meter", "5\n");
    assert_eq!(figure(&mut bench, 5), None, "it began anew");
    folder.put("meter", "nothing\n");
    assert_eq!(figure(&mut bench, 6), None);
    bench.set("counter", "off").unwrap();
    bench.set("scale", "0.5").unwrap();
    folder.put("meter", "-42\n");
    assert_eq!(figure(&mut bench, 7), Some(-21.0));
    for (key, value, why) in [
        ("name", "watts", "`name` has a dot"),
        ("scale", "much", "`scale` is a number"),
        ("counter", "true", "`counter` is `on` or `off`"),
        ("colour", "red", "not `colour`"),
        ("file", &"x".repeat(5_000), "4095 bytes at most"),
    ] {
        assert!(bench.set(key, value).unwrap_err().contains(why), "{key}");
    }
}

#[test]
fn the_files_of_the_page_can_be_had() {
    let folder = Folder::new("page");
    folder.build("libpower", POWER);
    folder.put("read_switch.sh", "");
    folder.put("mail.sh", "");
    let page = include_str!("../../../docs/monitoring.md");
    let files: Vec<_> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(files.len(), 4);
    for text in files {
        let path = folder.put("agent.toml", text);
        OwnFile::read(&path).and_then(|file| file.check()).unwrap_or_else(|error| panic!("{error}"));
    }
}
