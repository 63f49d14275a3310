//! Memory that outlives the process: a shared mapping of a file in a memory file system.
//!
//! A killed process leaves the file, and the next one finds every byte that was stored before the
//! kill. A restart of the machine empties the file system, so nothing that is found is older than
//! the machine's last start.
//!
//! Guarantees: a number stored with [`SharedMemory::store`] is visible to the next process only
//! with all writes before it. All pages are allocated when the memory is opened, so no write can
//! fail.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, OFlags, fallocate, statfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::geteuid;

/// File system type of tmpfs (`TMPFS_MAGIC` in linux/magic.h).
const TMPFS: i64 = 0x0102_1994;

/// Memory that outlives the process. It has one writer at a time.
pub struct SharedMemory(Backing);

enum Backing {
    File(Mapping),
    /// Memory of a simulated machine, whose processes share it through clones of this handle.
    Simulated(Arc<Mutex<Vec<u8>>>),
}

struct Mapping {
    start: NonNull<u8>,
    len: usize,
    path: PathBuf,
    /// Locked, so that no other process shortens or writes it.
    _file: File,
}

// SAFETY: the mapping belongs to this value alone, and its methods take `&mut self` to write.
unsafe impl Send for Mapping {}

impl SharedMemory {
    /// Maps `len` bytes of the file at `path`, which is created if it is absent. The contents are
    /// kept if the file has this length, and are zeros otherwise.
    ///
    /// # Errors
    /// The file is not in a memory file system, belongs to another user or is open to others, is
    /// no regular file, is in use, or cannot be opened or allocated.
    pub fn open(path: &Path, len: usize) -> io::Result<SharedMemory> {
        check_directory(path.parent().unwrap_or(path))?;
        let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags)
            .open(path)?;
        file.try_lock().map_err(|why| match why {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it")
            }
        })?;
        // Locked first: until then `remove_unused` may remove the name.
        check(&file)?;
        if file.metadata()?.len() != len as u64 {
            file.set_len(0)?;
            file.set_len(len as u64)?;
        }
        fallocate(&file, FallocateFlags::empty(), 0, len as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of a file of at least `len` bytes, which is locked.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let path = path.to_owned();
        Ok(SharedMemory(Backing::File(Mapping { start, len, path, _file: file })))
    }

    /// Removes the files in `directory` whose names `is_meant` selects and that killed processes
    /// left. Files that a process uses, and files that [`SharedMemory::open`] would refuse, stay.
    pub fn remove_unused(directory: &Path, is_meant: impl Fn(&OsStr) -> bool) {
        if check_directory(directory).is_err() {
            return;
        }
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| is_meant(&entry.file_name())) {
            let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits() as i32;
            let file = File::options().read(true).custom_flags(flags).open(entry.path());
            let Ok(file) = file else { continue };
            if check(&file).is_ok() && file.try_lock().is_ok() {
                _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Returns zeroed memory of a simulated machine. Clones made by [`SharedMemory::reopen`] see
    /// the same bytes.
    pub fn simulated(len: usize) -> SharedMemory {
        SharedMemory(Backing::Simulated(Arc::new(Mutex::new(vec![0; len]))))
    }

    /// Returns another handle of simulated memory, for the next process; `None` for a file.
    pub fn reopen(&self) -> Option<SharedMemory> {
        match &self.0 {
            Backing::File(_) => None,
            Backing::Simulated(bytes) => Some(SharedMemory(Backing::Simulated(Arc::clone(bytes)))),
        }
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        match &self.0 {
            Backing::File(mapping) => mapping.len,
            Backing::Simulated(bytes) => bytes.lock().unwrap_or_else(PoisonError::into_inner).len(),
        }
    }

    /// Returns the `len` bytes at `offset`, which must lie within the memory.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        self.check_range(offset, len);
        match &self.0 {
            Backing::File(mapping) => {
                let mut bytes = vec![0; len];
                // SAFETY: the range lies within the mapping, and nothing writes meanwhile.
                unsafe {
                    let from = mapping.start.as_ptr().add(offset);
                    std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len);
                }
                bytes
            }
            Backing::Simulated(bytes) => {
                let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                bytes[offset..offset + len].to_vec()
            }
        }
    }

    /// Writes `bytes` at `offset`; they must lie within the memory.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.check_range(offset, bytes.len());
        match &self.0 {
            Backing::File(mapping) => {
                // SAFETY: the range lies within the mapping, which only this value writes to.
                unsafe {
                    let to = mapping.start.as_ptr().add(offset);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                }
            }
            Backing::Simulated(all) => {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// Stores `value` at `offset`, a multiple of 8, in one step and after all earlier writes.
    pub fn store(&mut self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "a number is stored at a multiple of its size");
        self.check_range(offset, 8);
        match &self.0 {
            Backing::File(mapping) => {
                // SAFETY: within the mapping, and aligned, because a mapping begins with a page.
                let at = unsafe { AtomicU64::from_ptr(mapping.start.as_ptr().add(offset).cast()) };
                at.store(value.to_le(), Ordering::Release);
            }
            Backing::Simulated(_) => self.write(offset, &value.to_le_bytes()),
        }
    }

    /// Removes the file: nothing of it is needed any more.
    pub fn remove(self) {
        if let Backing::File(mapping) = &self.0 {
            // It is emptied with the machine at the latest.
            _ = std::fs::remove_file(&mapping.path);
        }
    }

    fn check_range(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.size()), "{len} bytes at {offset} are outside");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this start and length, and nothing refers to it.
        unsafe {
            _ = munmap(self.start.as_ptr().cast(), self.len);
        }
    }
}

fn refuse(reason: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Returns an error unless the directory is in a memory file system. Nothing is created elsewhere.
fn check_directory(directory: &Path) -> io::Result<()> {
    match statfs(directory)?.f_type as i64 {
        TMPFS => Ok(()),
        _ => refuse("it is not in a memory file system (tmpfs)"),
    }
}

/// Returns an error unless the file is one that only this user can have written.
fn check(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.file_type().is_file() || found.nlink() != 1 {
        return refuse("it is not a regular file with one name");
    }
    if found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return refuse("it belongs to another user, or others may open it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_mapping_of_the_file_finds_what_was_written() {
        let directory = Path::new("/dev/shm");
        if !directory.is_dir() {
            eprintln!("SKIPPED: no /dev/shm");
            return;
        }
        let directory = tempfile::tempdir_in(directory).unwrap();
        let path = directory.path().join("memory");
        let mut memory = SharedMemory::open(&path, 10_000).unwrap();
        assert_eq!(memory.read(0, 10_000), vec![0; 10_000]);
        memory.write(9_990, b"0123456789");
        memory.store(8, 7);
        let busy = SharedMemory::open(&path, 20_000).err().unwrap();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(memory);
        let memory = SharedMemory::open(&path, 10_000).unwrap();
        assert_eq!((memory.size(), memory.read(9_990, 10)), (10_000, b"0123456789".to_vec()));
        assert_eq!(memory.read(8, 8), 7_u64.to_le_bytes());
        drop(memory);
        let memory = SharedMemory::open(&path, 20_000).unwrap();
        assert_eq!(memory.read(0, 20_000), vec![0; 20_000], "another length");
        memory.remove();
        assert!(!path.exists());
    }

    #[test]
    fn memory_that_no_process_uses_is_removed() {
        if !Path::new("/dev/shm").is_dir() {
            eprintln!("SKIPPED: no /dev/shm");
            return;
        }
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["a-left", "b-left"] {
            SharedMemory::open(&path(name), 4096).unwrap();
        }
        let used = SharedMemory::open(&path("a-used"), 4096).unwrap();
        std::os::unix::fs::symlink(path("b-left"), path("a-link")).unwrap();
        SharedMemory::remove_unused(directory.path(), |name| name.as_encoded_bytes()[0] == b'a');
        let stays = |name: &str| path(name).symlink_metadata().is_ok();
        let left = ["a-left", "b-left", "a-used", "a-link"].map(stays);
        assert_eq!(left, [false, true, true, true]);
        used.remove();
    }

    #[test]
    fn a_file_that_others_may_have_written_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let elsewhere = tempfile::tempdir().unwrap();
        let reason = |path: &Path| SharedMemory::open(path, 4096).err().map(|why| why.to_string());
        if Path::new("/dev/shm").is_dir() {
            let directory = tempfile::tempdir_in("/dev/shm").unwrap();
            let path = directory.path().join("open");
            std::fs::write(&path, b"").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o606)).unwrap();
            assert!(reason(&path).unwrap().contains("others"));
            let link = directory.path().join("link");
            std::os::unix::fs::symlink(elsewhere.path().join("target"), &link).unwrap();
            assert!(reason(&link).is_some());
            assert!(!elsewhere.path().join("target").exists(), "nothing is created behind it");
        }
        let disk = elsewhere.path().join("disk");
        if statfs(elsewhere.path()).unwrap().f_type as i64 != TMPFS {
            assert!(reason(&disk).unwrap().contains("memory file system"));
            assert!(!disk.exists());
        }
    }
}
