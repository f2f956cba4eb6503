//! Results in a folder: each unit's stdout, stderr and files, and `results.json` beside them.

use super::client::types::UnitResult;
use super::client::{ApiError, Client};
use super::failure::Failure;
use super::task_path::task_path;
use crate::text::io_error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder that results are written into.
pub(crate) struct OutputFolder {
    dir: PathBuf,
    index: BufWriter<File>,
    units: u32,
}

impl OutputFolder {
    pub(crate) fn create(dir: &Path) -> Result<OutputFolder, Failure> {
        make(dir)?;
        let path = dir.join("results.json");
        let file = File::create(&path).map_err(|e| unwritable(&path, &e))?;
        let mut folder = OutputFolder { dir: dir.to_path_buf(), index: BufWriter::new(file), units: 0 };
        folder.note("[")?;
        Ok(folder)
    }

    /// Writes a unit's output into `name` below the folder, and `record`, what the API said of
    /// it, into the list.
    pub(crate) fn unit(
        &mut self,
        client: &Client,
        name: &str,
        result: &UnitResult,
        record: &serde_json::Value,
    ) -> Result<(), Failure> {
        let unit = self.dir.join(name);
        make(&unit)?;
        save(&unit.join("stdout"), |file| client.fetch(&result.stdout, file))?;
        save(&unit.join("stderr"), |file| client.fetch(&result.stderr, file))?;
        files(client, result, &unit.join("files"))?;
        let mut record = record.clone();
        if let Some(fields) = record.as_object_mut() {
            fields.insert("folder".into(), name.into());
            // It lies in the folder now.
            for stream in ["stdout", "stderr"] {
                if let Some(output) = fields.get_mut(stream) {
                    forget_content(output);
                }
            }
            if let Some(files) = fields.get_mut("files").and_then(|files| files.as_array_mut()) {
                files.iter_mut().for_each(forget_content);
            }
        }
        self.note(&format!("{}\n  {record}", if self.units > 0 { "," } else { "" }))?;
        self.units += 1;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<u32, Failure> {
        self.note("\n]\n")?;
        self.index.flush().map_err(|e| unwritable(&self.dir.join("results.json"), &e))?;
        Ok(self.units)
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.index.write_all(text.as_bytes());
        written.map_err(|e| unwritable(&self.dir.join("results.json"), &e))
    }
}

fn forget_content(output: &mut serde_json::Value) {
    if let Some(fields) = output.as_object_mut() {
        fields.remove("base64");
    }
}

/// Writes the files that a unit wrote into `dir`.
pub(crate) fn files(client: &Client, result: &UnitResult, dir: &Path) -> Result<(), Failure> {
    for file in &result.files {
        // The program chose the path, on somebody else's machine.
        if !stays_inside(&file.path) {
            return Err(Failure::failed(format!(
                "unit {} wrote a file named {:?}, which would not stay inside {}; left out",
                result.index,
                file.path,
                dir.display()
            )));
        }
        let path = dir.join(&file.path);
        make(path.parent().unwrap_or(dir))?;
        save(&path, |into| client.fetch_file(file, into))?;
    }
    Ok(())
}

/// Writes the files that a task which ran in this process wrote into `dir`.
pub(crate) fn local_files(files: &[sandbox::File], dir: &Path) -> Result<(), Failure> {
    for file in files.iter().filter(|file| stays_inside(&file.path)) {
        let path = dir.join(&file.path);
        make(path.parent().unwrap_or(dir))?;
        std::fs::write(&path, &file.data).map_err(|e| unwritable(&path, &e))?;
    }
    Ok(())
}

/// Whether a path leads to a file below the folder that it is joined to.
fn stays_inside(path: &str) -> bool {
    task_path(Path::new(path)).as_deref() == Ok(path)
}

fn save(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), ApiError>,
) -> Result<(), Failure> {
    let mut file = BufWriter::new(File::create(path).map_err(|e| unwritable(path, &e))?);
    write(&mut file).map_err(|e| match e {
        ApiError::Local(why) => Failure::failed(format!("{}: {why}", path.display())),
        e => e.into(),
    })?;
    file.flush().map_err(|e| unwritable(path, &e))
}

fn make(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| {
        Failure::failed(format!("cannot make the folder {}: {}; name another", dir.display(), io_error(&e)))
    })
}

fn unwritable(path: &Path, e: &std::io::Error) -> Failure {
    let why = io_error(e);
    Failure::failed(format!("cannot write {}: {why}; make room or name another folder", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_writes_outside_of_the_folder_for_its_files() {
        for good in ["a", "a/b.txt", "..a/b..", ".hidden"] {
            assert!(stays_inside(good), "{good}");
        }
        for bad in ["../a", "/etc/passwd", "a/../../b", "a/./b", "a//b", "..", "", "a/"] {
            assert!(!stays_inside(bad), "{bad}");
        }
    }
}
