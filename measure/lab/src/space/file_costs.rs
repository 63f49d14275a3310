//! M11: the costs of creating and deleting small files, measured on the model as in the paper
//! (USITS 1999, figure 3): 64 files of one size are created in a directory and then deleted.
//!
//! The angle between a directory and its inodes on the drive determines in which multiple of a
//! rotation the synchronous writes of one file end. So several directories are measured, each in
//! another cylinder group, and the mean is reported.

use device::{Clock, Nanos};
use sim::Executor;
use sim::drives::Drive;
use sim::ffs::{Ffs, Parameters};

use crate::space::file_caches::disk;
use crate::space::manager::SpaceError;

/// Number of files of each size in a directory, as in the benchmark.
pub const FILES: u32 = 64;

/// Pause before each directory's measurement, in nanoseconds: the disk becomes idle.
const PAUSE: Nanos = 60_000_000_000;

/// Mean costs of one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileCost {
    /// File size in bytes.
    pub size: u64,
    /// Milliseconds to create, write and close it.
    pub create_ms: f64,
    /// Milliseconds to delete it.
    pub delete_ms: f64,
}

/// The order in which files are deleted; the paper's caption and text disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOrder {
    /// In the order of creation.
    Forward,
    /// In reverse order.
    Backward,
}

/// Measures files of `sizes` bytes in `directories` directories of a new file system on `drive`.
///
/// # Errors
/// The parameters do not fit the drive.
pub fn measure(
    drive: impl Drive + 'static,
    parameters: Parameters,
    directories: u32,
    sizes: &[u64],
    order: DeleteOrder,
) -> Result<Vec<FileCost>, SpaceError> {
    let executor = Executor::new(None, 0);
    let clock = executor.handle();
    let ffs = Ffs::new(clock.clone(), disk(&clock, drive, None), parameters);
    let ffs = ffs.map_err(|error| SpaceError::Engine(error.to_string()))?;
    executor.run(async {
        for directory in 0..directories {
            let path = format!("{directory}");
            let made = ffs.mkdir(&path).await;
            made.map_err(|error| SpaceError::file("make directory", &path, error))?;
        }
        let mut costs = Vec::new();
        for size in sizes {
            let (mut created, mut deleted) = (0, 0);
            for directory in 0..directories {
                clock.sleep_until(clock.now() + PAUSE).await;
                let begun = clock.now();
                create(&ffs, directory, *size).await?;
                let between = clock.now();
                delete(&ffs, directory, order).await?;
                created += between - begun;
                deleted += clock.now() - between;
            }
            let mean = |time: Nanos| time as f64 * 1e-6 / f64::from(FILES * directories.max(1));
            let (create_ms, delete_ms) = (mean(created), mean(deleted));
            costs.push(FileCost { size: *size, create_ms, delete_ms });
        }
        Ok(costs)
    })
}

async fn create(ffs: &Ffs, directory: u32, size: u64) -> Result<(), SpaceError> {
    for number in 0..FILES {
        let path = format!("{directory}/{number}");
        let error = |error| SpaceError::file("create", &path, error);
        let file = ffs.create(&path).await.map_err(error)?;
        ffs.write(&file, 0, size).await.map_err(error)?;
        ffs.close(file).await.map_err(error)?;
    }
    Ok(())
}

async fn delete(ffs: &Ffs, directory: u32, order: DeleteOrder) -> Result<(), SpaceError> {
    for step in 0..FILES {
        let number = match order {
            DeleteOrder::Forward => step,
            DeleteOrder::Backward => FILES - 1 - step,
        };
        let path = format!("{directory}/{number}");
        ffs.unlink(&path).await.map_err(|error| SpaceError::file("unlink", &path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sim::drives::mechanical::Config;

    use super::*;
    use crate::space::file_caches::{drive, write_through_drive};

    /// The paper's statements, as far as they do not depend on a rotation more or less: data costs
    /// more than an empty file, files with data cost more to delete, and all costs are tens of
    /// milliseconds.
    #[test]
    fn costs_are_ordered_as_in_the_paper() {
        let drives = [drive, write_through_drive];
        for make in drives {
            let parameters = Parameters::solaris_ufs(64 << 20);
            let drive = make("st15150", Config::Shipped).unwrap();
            let sizes = [0, 4_096, 10_240];
            let costs = measure(drive, parameters, 6, &sizes, DeleteOrder::Forward).unwrap();
            let [empty, small, larger] = costs[..] else { panic!("three sizes") };
            assert!(empty.create_ms < small.create_ms, "{costs:?}");
            assert!(small.create_ms < larger.create_ms, "{costs:?}");
            assert!(empty.delete_ms < small.delete_ms, "{costs:?}");
            assert!((15.0..30.0).contains(&empty.create_ms), "{costs:?}");
            assert!((25.0..50.0).contains(&larger.create_ms), "{costs:?}");
            assert!((8.0..25.0).contains(&empty.delete_ms), "{costs:?}");
            assert!((35.0..70.0).contains(&(small.create_ms + small.delete_ms)), "{costs:?}");
        }
    }
}
