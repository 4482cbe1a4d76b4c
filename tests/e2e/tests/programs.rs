//! Programs that people bring, each against a run of the same without a farm: the bytes are the same.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use starfarm_e2e::{Farm, TempDir, has, program, run, skip};

fn project(farm: &Farm, files: &[(&str, &str)], job: &str) -> PathBuf {
    let dir = farm.temp().path().join("project");
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("job.toml"), job).unwrap();
    dir
}

/// Runs a line of the shell in `dir`, as somebody without a farm would; what it wrote.
fn serial(dir: &Path, line: &str) -> Vec<u8> {
    let output = Command::new("sh").args(["-ec", line]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Submits the job of a project, waits for its end, and writes its files into a folder beside it.
fn done(farm: &Farm, dir: &Path) -> (String, PathBuf) {
    let id = farm.submit(&[dir.join("job.toml").to_str().unwrap()]);
    farm.wait(&id).exits(0);
    let out = dir.with_file_name("out");
    farm.cli(&["results", &id, "--dir", out.to_str().unwrap()]).exits(0);
    (id, out)
}

/// The files of two folders have the same names, and end with the same `bytes`: before these may stand a date.
fn same_files(one: &Path, other: &Path, count: usize, bytes: usize) {
    let names: Vec<_> = fs::read_dir(one).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), count);
    for name in names {
        let [one, other] = [one, other].map(|dir| fs::read(dir.join(&name)).unwrap());
        assert_eq!(one.len(), other.len());
        let from = one.len() - bytes.min(one.len());
        assert!(one[from..] == other[from..], "{name:?}");
    }
}

const SCENE: &str = "camera { location <0, 1, -4> look_at 0 }\nlight_source { <3, 5, -4> rgb 1 }\n\
                     #include \"colours.inc\"\n\
                     box { -0.8, 0.8 rotate <0, 360 * clock, 0> pigment { checker Red_One, White_One scale 0.3 } }\n";
const COLOURS: &str = "#declare Red_One = rgb <0.8, 0.1, 0.1>;\n#declare White_One = rgb 1;\n";

#[test]
fn an_animation_of_povray_has_the_pixels_of_a_serial_run() {
    if !has("povray", "an_animation_of_povray_has_the_pixels_of_a_serial_run") {
        return;
    }
    let farm = Farm::with_workers(3, 1);
    let job = "[space]\nkind = \"frames\"\nfirst = 1\nlast = 9\n[task]\nexecutor = \"command\"\n\
               program = [\"povray\", \"+Iscene.pov\", \"+Linc\", \"+K{clock}\", \"+Oframe{}.ppm\", \"+FP\", \"+W80\", \"+H60\", \"+WT1\", \"-D\", \"-GA\"]\n\
               inputs = [\"scene.pov\", \"inc/**\"]\noutputs = [\"frame{}.ppm\"]\n";
    let dir = project(&farm, &[("scene.pov", SCENE), ("inc/colours.inc", COLOURS)], job);
    let (_, out) = done(&farm, &dir);
    serial(
        &dir,
        "mkdir ../serial; for n in 1 2 3 4 5 6 7 8 9; do \
         clock=$(awk \"BEGIN { printf \\\"%.17g\\\", ($n - 1) / 8 }\"); \
         povray +Iscene.pov +Linc +K$clock +O../serial/frame$n.ppm +FP +W80 +H60 +WT1 -D -GA 2>/dev/null; done",
    );
    same_files(&dir.with_file_name("serial"), &out, 9, 80 * 60 * 3);
}

#[test]
fn a_folder_of_images_is_converted_as_by_a_loop() {
    if !has("/usr/bin/convert", "a_folder_of_images_is_converted_as_by_a_loop") {
        return;
    }
    let farm = Farm::with_workers(2, 2);
    let names: String = (0..12).map(|n| format!("image-{n}\n")).collect();
    let job = "[space]\nkind = \"list\"\nfile = \"names.txt\"\n[task]\nexecutor = \"command\"\n\
               program = [\"convert\", \"images/{}.ppm\", \"-resize\", \"50%\", \"-negate\", \"{}.pgm\"]\n\
               inputs = [\"images/**\"]\noutputs = [\"{}.pgm\"]\n";
    let dir = project(&farm, &[("names.txt", &names)], job);
    serial(
        &dir,
        "mkdir images; for n in $(seq 0 11); do convert -size 64x48 gradient:red-rgb\\($((n * 20)),90,200\\) images/image-$n.ppm; done",
    );
    let (_, out) = done(&farm, &dir);
    serial(
        &dir,
        "mkdir ../serial; while read -r name; do \
         convert images/$name.ppm -resize 50% -negate ../serial/$name.pgm; done < names.txt",
    );
    same_files(&dir.with_file_name("serial"), &out, 12, usize::MAX);
}

/// A sequence of so many letters, different for each seed.
fn sequence(mut seed: u64, letters: usize) -> String {
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b"ACGT"[(seed >> 33) as usize % 4] as char
    };
    (0..letters).map(|_| letter()).collect()
}

/// The query is split, one sequence a unit; merged, the answer is that of one run over all.
#[test]
fn a_split_blast_query_gives_the_answer_of_the_whole_one() {
    if !has("blastn", "a_split_blast_query_gives_the_answer_of_the_whole_one") {
        return;
    }
    let farm = Farm::with_workers(2, 2);
    let subjects: Vec<String> = (0..20).map(|n| sequence(n, 2_000)).collect();
    let fasta: String = subjects.iter().enumerate().map(|(n, of)| format!(">subject{n}\n{of}\n")).collect();
    let queries: Vec<String> =
        (0..24).map(|n| format!(">query{n}\n{}\n", &subjects[n % 20][50 * n..50 * n + 300])).collect();
    let mut files = vec![("subjects.fa".to_owned(), fasta), ("all.fa".to_owned(), queries.concat())];
    files.extend(queries.iter().enumerate().map(|(n, of)| (format!("queries/{n:02}.fa"), of.clone())));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let job = "[space]\nkind = \"list\"\nfile = \"names.txt\"\n[task]\nexecutor = \"command\"\n\
               program = [\"blastn\", \"-db\", \"db\", \"-query\", \"queries/{}\", \"-outfmt\", \"6\"]\n\
               inputs = [\"db.*\", \"queries/*\"]\n[merge]\nkind = \"concat\"\n";
    let dir = project(&farm, &files, job);
    serial(&dir, "makeblastdb -in subjects.fa -dbtype nucl -out db > /dev/null; ls queries > names.txt");
    let id = farm.submit(&[dir.join("job.toml").to_str().unwrap()]);
    farm.wait(&id).exits(0);
    let whole = serial(&dir, "blastn -db db -query all.fa -outfmt 6");
    assert!(whole.len() > 1_000);
    let merged = farm.cli(&["results", &id, "--merged"]);
    merged.exits(0);
    assert!(merged.stdout.as_bytes() == whole, "{}", merged.stdout);
}

/// hashcat goes from here to there; the farm says from where and how far. One of its runs finds the word.
#[test]
fn hashcat_searches_its_keyspace_task_by_task() {
    let test = "hashcat_searches_its_keyspace_task_by_task";
    if !has("hashcat", test) {
        return;
    }
    let farm = Farm::with_workers(1, 1);
    let home = farm.temp().path().join("home");
    fs::create_dir(&home).unwrap();
    let probe = Command::new("hashcat").args(["-I", "--force"]).env("HOME", &home).output().unwrap();
    if !String::from_utf8_lossy(&probe.stdout).contains("Backend Device ID") {
        return skip("hashcat", test, "it finds no OpenCL device");
    }
    let serially = |line: &str| {
        let line = format!("export HOME={0} XDG_CACHE_HOME={0}/cache; {line}", home.display());
        String::from_utf8(serial(farm.temp().path(), &line)).unwrap().trim().to_owned()
    };
    // It ends with 1 where it has looked at all and found nothing.
    let line = "said=$(hashcat --force -D 1 --quiet --potfile-disable --session s$1 -m 0 -a 3 --skip $1 --limit $2 \
                $3 '?d?d?d?d?d?d' 2>&1); code=$?; echo \"$said\" | grep $3:; [ $code -le 1 ]";
    let digest = serially("printf 483920 | md5sum | cut -d' ' -f1");
    let keyspace = serially("hashcat --keyspace -a 3 '?d?d?d?d?d?d'");
    let job = format!(
        "[space]\nkind = \"range\"\nfrom = 0\nto = {keyspace}\n[task]\nexecutor = \"command\"\nper = \"task\"\ntarget_seconds = 1\n\
         env = {{ HOME = \"{0}\", XDG_CACHE_HOME = \"{0}/cache\" }}\n\
         program = [\"bash\", \"-c\", {line:?}, \"-\", \"{{lo}}\", \"{{count}}\", \"{digest}\"]\n[merge]\nkind = \"concat\"\n",
        home.display()
    );
    // First, so that its kernels are compiled, and kept where the job's runs find them: on a busy machine that takes longer than a job is waited for.
    let whole = serially(&format!(
        "hashcat --force -D 1 --quiet --potfile-disable -m 0 -a 3 {digest} '?d?d?d?d?d?d' 2>/dev/null"
    ));
    let dir = project(&farm, &[], &job);
    let id = farm.submit(&[dir.join("job.toml").to_str().unwrap()]);
    farm.wait(&id).exits(0);
    let merged = farm.cli(&["results", &id, "--merged"]);
    assert_eq!(merged.stdout, format!("{digest}:483920\n"));
    assert_eq!(merged.stdout.trim(), whole, "as one run over all");
    // By the clock: of ten thousand units a few runs.
    let runs = farm.results(&id)["outputs"].as_array().unwrap().len();
    assert!((2..40).contains(&runs), "{runs} runs");
}

/// As a newcomer tries them.
#[test]
fn the_examples_run() {
    let test = "the_examples_run";
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let dir = TempDir::new();
    let ran = |name: &str, files: usize| {
        let out = dir.path().join(format!("out-{name}"));
        let mut command = program("starfarm", dir.path());
        command
            .args(["run", "--output", "quiet", "--state"])
            .arg(dir.path().join(name))
            .arg("--dir")
            .arg(&out);
        command.arg(examples.join(format!("{name}.toml")));
        let reply = run(command);
        reply.exits(0);
        assert_eq!(fs::read_dir(&out).unwrap().count(), files, "{name}");
        reply.stdout
    };
    assert_eq!(ran("primes", 0), "148933\n");
    assert_eq!(ran("sweep", 0).lines().count(), 30);
    assert_eq!(ran("commands", 0).lines().count(), 200);
    let found = |name: &str| {
        let mut words: Vec<String> = ran(name, 0)
            .lines()
            .map(|line| line.split_whitespace().last().unwrap_or_default().to_owned())
            .collect();
        words.sort();
        words
    };
    assert_eq!(found("keysearch"), ["anchor4", "garden1", "planet7", "silver3", "winter5", "zephyr8"]);
    assert_eq!(found("words"), ["cloud", "farm", "ox", "rust", "star"]);
    if has("povray", test) {
        ran("render", 24);
    }
    if has("/usr/bin/convert", test) {
        ran("convert", 3);
    }
    if has("blastn", test) {
        let lines = ran("blast", 0);
        assert!(lines.starts_with("north\tsubject0\t100") && lines.lines().count() >= 3, "{lines}");
    }
}
