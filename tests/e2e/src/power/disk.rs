//! File systems that a test can take away: ext4 in an image file, or a small tmpfs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A file system is given so many times, so long apart, to be let go of by those who were killed.
const TRIES: u32 = 50;
const WAIT: Duration = Duration::from_millis(100);

/// Why there is no such file system here.
#[derive(Clone, Debug)]
pub struct Lack(pub String);

/// A mounted file system. Dropping it unmounts it; its image stays.
#[derive(Debug)]
pub struct Disk {
    mounted: PathBuf,
    image: Option<PathBuf>,
}

impl Disk {
    /// An empty ext4 of so many MiB in a new image. It writes back by itself only after five minutes, so that
    /// nothing but what its user syncs is in the image.
    ///
    /// # Errors
    /// It cannot be made here.
    pub fn ext4(image: &Path, at: &Path, mib: u64) -> Result<Self, Lack> {
        let made = File::create(image).and_then(|file| file.set_len(mib << 20));
        made.map_err(|error| Lack(format!("{}: {error}", image.display())))?;
        call("mkfs.ext4", &["-q", "-F", &image.to_string_lossy()])?;
        Self::mount_image(image, at)
    }

    /// Mounts an image; what its journal holds is replayed first, as after a power cut.
    ///
    /// # Errors
    /// It cannot be mounted here.
    pub fn mount_image(image: &Path, at: &Path) -> Result<Self, Lack> {
        Self::mount(&["-o", "loop,commit=300", &image.to_string_lossy()], at, Some(image.to_owned()))
    }

    /// A tmpfs of so many KiB.
    ///
    /// # Errors
    /// It cannot be mounted here.
    pub fn tmpfs(at: &Path, kib: u64) -> Result<Self, Lack> {
        Self::mount(&["-t", "tmpfs", "-o", &format!("size={kib}k,mode=755"), "tmpfs"], at, None)
    }

    fn mount(args: &[&str], at: &Path, image: Option<PathBuf>) -> Result<Self, Lack> {
        std::fs::create_dir_all(at).map_err(|error| Lack(format!("{}: {error}", at.display())))?;
        call("mount", &[args, &[&*at.to_string_lossy()]].concat())?;
        Ok(Self { mounted: at.to_owned(), image })
    }

    /// A tmpfs has so many KiB from now on.
    ///
    /// # Panics
    /// It cannot be mounted anew.
    pub fn resize(&self, kib: u64) {
        let size = format!("remount,size={kib}k");
        call("mount", &["-o", &size, &self.mounted.to_string_lossy()])
            .unwrap_or_else(|lack| panic!("{}", lack.0));
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mounted
    }

    /// Copies the image as it is at this moment: what a power cut would leave.
    ///
    /// # Panics
    /// It cannot be copied.
    pub fn copy_image(&self, to: &Path) {
        let image = self.image.as_ref().expect("this disk has an image");
        let args = ["--sparse=always", "--reflink=auto", &image.to_string_lossy(), &to.to_string_lossy()];
        call("cp", &args).unwrap_or_else(|lack| panic!("{}", lack.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let path = self.mounted.to_string_lossy().into_owned();
        for _ in 0..TRIES {
            if call("umount", &[&path]).is_ok() {
                return;
            }
            std::thread::sleep(WAIT);
        }
        // Whoever holds it keeps it until he ends; nobody finds it any more.
        if let Err(Lack(why)) = call("umount", &["-l", &path]) {
            eprintln!("{path} stays mounted: {why}");
        }
    }
}

fn call(program: &str, args: &[&str]) -> Result<(), Lack> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| Lack(format!("{program}: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Lack(format!("{program} {}: {}", args.join(" "), said.trim())))
        }
    }
}
