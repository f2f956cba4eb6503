//! Globals: variables of all threads of the job.

use crate::files::{self, Mode, errno};
use crate::{Error, Result, VALUE_MAX};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::ErrorKind;
use std::marker::PhantomData;

/// A variable that all threads share by its name. Each value has a version, and a write takes place only if its writer
/// has read the last one, so no update is lost.
pub struct Global<T> {
    name: String,
    /// Descriptor that has read or written the last value known here.
    file: Option<File>,
    of: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Global<T> {
    /// The global with this name: 1 to 64 letters, digits, `.`, `-` or `_`, and no point in front. It need not exist;
    /// a value cannot be longer than [`VALUE_MAX`].
    pub fn new(name: &str) -> Global<T> {
        Global { name: name.into(), file: None, of: PhantomData }
    }

    /// The value now; `None` if it was never set.
    ///
    /// # Errors
    /// [`Error::GlobalName`] or [`Error::Decode`].
    pub fn get(&mut self) -> Result<Option<T>> {
        // The first read of a descriptor waits for no later version.
        self.file = Some(self.open()?);
        self.read()
    }

    /// Waits for a later value than this handle has read or written. The first time: for any.
    ///
    /// # Errors
    /// Those of [`Global::get`].
    pub fn wait(&mut self) -> Result<T> {
        if self.file.is_none() {
            self.file = Some(self.open()?);
        }
        loop {
            // Version 0 has no value, and the next read waits for version 1.
            if let Some(value) = self.read()? {
                return Ok(value);
            }
        }
    }

    /// Replaces the value, whatever it is.
    ///
    /// # Errors
    /// [`Error::Encode`], [`Error::TooLong`], [`Error::GlobalsFull`] or [`Error::GlobalName`]: it was not set.
    pub fn set(&mut self, value: &T) -> Result<()> {
        let bytes = self.encoded(value)?;
        loop {
            let path = self.path();
            let mut file = self.open()?;
            files::read(&mut file, |_| ()).map_err(|error| files::failed(&path, error))?;
            self.file = Some(file);
            if self.write(&bytes)? {
                return Ok(());
            }
        }
    }

    /// Replaces the value by one that is made of it, and returns the new one. `change` is called again if another
    /// thread was faster, so it must do nothing but compute.
    ///
    /// # Errors
    /// Those of [`Global::get`] and [`Global::set`].
    pub fn update(&mut self, mut change: impl FnMut(Option<T>) -> T) -> Result<T> {
        loop {
            let value = change(self.get()?);
            let bytes = self.encoded(&value)?;
            if self.write(&bytes)? {
                return Ok(value);
            }
        }
    }

    fn path(&self) -> String {
        format!("globals/{}", self.name)
    }

    fn open(&self) -> Result<File> {
        // A name that would lead to another file.
        if self.name.contains('/') {
            return Err(Error::GlobalName(self.name.clone()));
        }
        files::open(&self.path(), Mode::Both).map_err(|error| match error {
            Error::File { error, .. }
                if files::is(&error, errno::INVALID)
                    || matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::NotFound) =>
            {
                Error::GlobalName(self.name.clone())
            }
            other => other,
        })
    }

    fn read(&mut self) -> Result<Option<T>> {
        let path = self.path();
        let file = self.file.as_mut().ok_or(Error::NoThread)?;
        let found =
            files::read(file, |text| versioned(text).map(|(version, value)| (version, value.to_vec())));
        let found = found.map_err(|error| files::failed(&path, error))?;
        match found.ok_or_else(|| Error::Format { path: format!("/swarm/{path}") })? {
            (0, _) => Ok(None),
            (_, value) => files::decode(|| format!("the global {}", self.name), &value).map(Some),
        }
    }

    /// False: another thread has changed it since it was read.
    fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        let path = self.path();
        let file = self.file.as_mut().ok_or(Error::NoThread)?;
        match files::write(file, bytes) {
            Ok(()) => Ok(true),
            Err(error) if files::is(&error, errno::BUSY) => Ok(false),
            Err(error) if files::is(&error, errno::NO_SPACE) => Err(Error::GlobalsFull),
            Err(error) => Err(files::failed(&path, error)),
        }
    }

    fn encoded(&self, value: &T) -> Result<Vec<u8>> {
        let bytes = files::encode(value)?;
        files::check("the value of a global", bytes.len(), VALUE_MAX)?;
        Ok(bytes)
    }
}

/// Version of a global, and the bytes of its value.
fn versioned(text: &[u8]) -> Option<(u64, &[u8])> {
    let (version, value) = files::split_line(text)?;
    Some((version.parse().ok()?, value))
}

#[cfg(test)]
mod tests {
    use super::{Global, versioned};
    use crate::{Error, VALUE_MAX};

    #[test]
    fn a_value_has_its_version_in_front() {
        assert_eq!(versioned(b"0\n"), Some((0, &b""[..])));
        assert_eq!(versioned(b"17\n1\n2"), Some((17, &b"1\n2"[..])));
        assert_eq!(versioned(b"x\n1"), None);
    }

    #[test]
    fn what_cannot_be_set_is_refused_before_a_file_is_opened() {
        let long = Global::new("a").set(&"x".repeat(VALUE_MAX)).unwrap_err();
        assert!(matches!(long, Error::TooLong { most: VALUE_MAX, .. }), "{long}");
        assert!(matches!(Global::<u8>::new("a/../b").get(), Err(Error::GlobalName(_))));
        assert!(matches!(Global::<u8>::new("a").get(), Err(Error::NoThread)));
    }
}
