//! A task that consists of its host calls.

use sandbox::wasi::{self, Answer, Halt, Host};
use sandbox::{File, Limits, Task};

/// Errors by the names that the specification gives them.
pub(crate) mod errno {
    pub(crate) const AGAIN: u32 = 6;
    pub(crate) const BADF: u32 = 8;
    pub(crate) const BUSY: u32 = 10;
    pub(crate) const DQUOT: u32 = 19;
    pub(crate) const EXIST: u32 = 20;
    pub(crate) const FAULT: u32 = 21;
    pub(crate) const ILSEQ: u32 = 25;
    pub(crate) const INVAL: u32 = 28;
    pub(crate) const ISDIR: u32 = 31;
    pub(crate) const MFILE: u32 = 33;
    pub(crate) const MSGSIZE: u32 = 35;
    pub(crate) const NAMETOOLONG: u32 = 37;
    pub(crate) const NOENT: u32 = 44;
    pub(crate) const NOSPC: u32 = 51;
    pub(crate) const NOTDIR: u32 = 54;
    pub(crate) const NOTEMPTY: u32 = 55;
    pub(crate) const NOTSOCK: u32 = 57;
    pub(crate) const NOTSUP: u32 = 58;
    pub(crate) const SPIPE: u32 = 70;
    pub(crate) const NOTCAPABLE: u32 = 76;
}

pub(crate) const CREATE: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const EXCLUSIVE: u32 = 4;
pub(crate) const TRUNCATE: u32 = 8;

pub(crate) const READ: u64 = 1 << 1;
pub(crate) const WRITE: u64 = 1 << 6;

pub(crate) const APPEND: u32 = 1;
pub(crate) const NONBLOCK: u32 = 4;

/// The descriptor of `/`.
pub(crate) const ROOT: u32 = 3;

/// Where the helpers put what they pass; tests keep what is theirs above [`FREE`].
const SCRATCH: u32 = 64;
pub(crate) const FREE: u32 = 32 << 10;

pub(crate) struct Guest {
    pub(crate) host: Host,
    pub(crate) memory: Vec<u8>,
}

impl Guest {
    pub(crate) fn new(task: &Task) -> Guest {
        Guest { host: Host::new(task).expect("a good task"), memory: vec![0; 64 << 10] }
    }

    pub(crate) fn empty() -> Guest {
        Guest::new(&Task::default())
    }

    pub(crate) fn with_files(files: &[(&str, &str)]) -> Guest {
        Guest::new(&task_with(files))
    }

    pub(crate) fn with_output_limit(output_bytes: u64) -> Guest {
        let limits = Limits { output_bytes, ..Limits::default() };
        Guest::new(&Task { limits, ..task_with(&[("given", "0123456789")]) })
    }

    /// A call that may end the task.
    pub(crate) fn try_call(&mut self, name: &str, args: &[u64]) -> Result<u32, Halt> {
        let function = wasi::function(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(function.params.len(), args.len(), "arguments of {name}");
        self.host.call(function, args, &mut &mut self.memory[..]).map(Answer::errno)
    }

    /// A call in which the task may wait: its error number, if it does not.
    pub(crate) fn waiting_call(&mut self, name: &str, args: &[u64]) -> Option<u32> {
        let function = wasi::function(name).unwrap_or_else(|| panic!("{name} is missing"));
        match self.host.call(function, args, &mut &mut self.memory[..]) {
            Ok(Answer::Errno(errno)) => Some(errno),
            Ok(Answer::Waits) => None,
            Err(halt) => panic!("{name} ended the task: {halt:?}"),
        }
    }

    /// The error number of a call.
    pub(crate) fn call(&mut self, name: &str, args: &[u64]) -> u32 {
        self.try_call(name, args).unwrap_or_else(|halt| panic!("{name} ended the task: {halt:?}"))
    }

    #[track_caller]
    pub(crate) fn ok(&mut self, name: &str, args: &[u64]) {
        assert_eq!(self.call(name, args), 0, "{name}");
    }

    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) {
        self.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn bytes(&self, at: u32, len: u32) -> &[u8] {
        &self.memory[at as usize..][..len as usize]
    }

    pub(crate) fn u32(&self, at: u32) -> u32 {
        u32::from_le_bytes(self.bytes(at, 4).try_into().unwrap())
    }

    pub(crate) fn u64(&self, at: u32) -> u64 {
        u64::from_le_bytes(self.bytes(at, 8).try_into().unwrap())
    }

    /// Puts a path where the calls below expect it; its length.
    fn path(&mut self, path: &str) -> u64 {
        self.put(SCRATCH, path.as_bytes());
        path.len() as u64
    }

    pub(crate) fn try_open(
        &mut self,
        dir: u32,
        path: &str,
        oflags: u32,
        rights: u64,
        flags: u32,
    ) -> Result<u32, u32> {
        let len = self.path(path);
        let args = [dir.into(), 1, SCRATCH.into(), len, oflags.into(), rights, rights, flags.into(), 0];
        match self.call("path_open", &args) {
            0 => Ok(self.u32(0)),
            errno => Err(errno),
        }
    }

    #[track_caller]
    pub(crate) fn open(&mut self, path: &str, oflags: u32, rights: u64) -> u32 {
        self.try_open(ROOT, path, oflags, rights, 0).unwrap_or_else(|errno| panic!("{path}: errno {errno}"))
    }

    pub(crate) fn close(&mut self, fd: u32) {
        self.ok("fd_close", &[fd.into()]);
    }

    pub(crate) fn try_write(&mut self, fd: u32, text: &str) -> Result<Result<u32, u32>, Halt> {
        self.put(FREE, text.as_bytes());
        self.put(0, &FREE.to_le_bytes());
        self.put(4, &(text.len() as u32).to_le_bytes());
        let errno = self.try_call("fd_write", &[fd.into(), 0, 1, 8])?;
        Ok(if errno == 0 { Ok(self.u32(8)) } else { Err(errno) })
    }

    #[track_caller]
    pub(crate) fn write(&mut self, fd: u32, text: &str) {
        assert_eq!(self.try_write(fd, text), Ok(Ok(text.len() as u32)));
    }

    pub(crate) fn try_read(&mut self, fd: u32, most: u32) -> Result<String, u32> {
        self.put(0, &FREE.to_le_bytes());
        self.put(4, &most.to_le_bytes());
        match self.call("fd_read", &[fd.into(), 0, 1, 8]) {
            0 => Ok(String::from_utf8(self.bytes(FREE, self.u32(8)).to_vec()).unwrap()),
            errno => Err(errno),
        }
    }

    #[track_caller]
    pub(crate) fn read(&mut self, fd: u32, most: u32) -> String {
        self.try_read(fd, most).unwrap_or_else(|errno| panic!("errno {errno}"))
    }

    pub(crate) fn seek(&mut self, fd: u32, offset: i64, whence: u32) -> Result<u64, u32> {
        match self.call("fd_seek", &[fd.into(), offset as u64, whence.into(), 0]) {
            0 => Ok(self.u64(0)),
            errno => Err(errno),
        }
    }

    /// A call whose arguments are a directory and a path.
    pub(crate) fn at_path(&mut self, name: &str, dir: u32, path: &str) -> u32 {
        let len = self.path(path);
        self.call(name, &[dir.into(), SCRATCH.into(), len])
    }

    pub(crate) fn rename(&mut self, old: &str, new: &str) -> u32 {
        let old_len = self.path(old);
        let new_at = SCRATCH + 8192;
        self.put(new_at, new.as_bytes());
        let new_len = new.len() as u64;
        let root = ROOT.into();
        self.call("path_rename", &[root, SCRATCH.into(), old_len, root, new_at.into(), new_len])
    }

    /// Kind (3 directory, 4 file), size and time of change.
    pub(crate) fn stat(&mut self, path: &str) -> Result<(u8, u64, u64), u32> {
        let len = self.path(path);
        match self.call("path_filestat_get", &[ROOT.into(), 0, SCRATCH.into(), len, FREE.into()]) {
            0 => Ok((self.memory[FREE as usize + 16], self.u64(FREE + 32), self.u64(FREE + 48))),
            errno => Err(errno),
        }
    }

    /// Names in a directory, read through a buffer of `len` bytes; calls `between` with each
    /// name before the next part is read.
    pub(crate) fn list(
        &mut self,
        path: &str,
        len: u32,
        mut between: impl FnMut(&mut Guest, &str),
    ) -> Vec<String> {
        let fd = self.open(path, DIRECTORY, READ);
        let (mut cookie, mut names) = (0, Vec::new());
        loop {
            self.ok("fd_readdir", &[fd.into(), FREE.into(), len.into(), cookie, 0]);
            let used = self.u32(0);
            let buffer = self.bytes(FREE, used).to_vec();
            let mut rest = &buffer[..];
            let before = names.len();
            while let Some((head, tail)) = rest.split_at_checked(24) {
                let name_len = u32::from_le_bytes(head[16..20].try_into().unwrap()) as usize;
                let Some((name, tail)) = tail.split_at_checked(name_len) else { break };
                cookie = u64::from_le_bytes(head[..8].try_into().unwrap());
                names.push(String::from_utf8(name.to_vec()).unwrap());
                rest = tail;
            }
            for name in &names[before..] {
                between(self, name);
            }
            if used < len {
                self.close(fd);
                return names;
            }
            assert!(names.len() > before, "a buffer of {len} bytes holds no entry");
        }
    }

    /// Stdout, and the files that are not as they were given.
    pub(crate) fn finish(self) -> (String, Vec<(String, String)>) {
        let left = self.host.finish();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&left.stdout), left.files.iter().map(|f| (f.path.clone(), text(&f.data))).collect())
    }

    pub(crate) fn files(self) -> Vec<(String, String)> {
        self.finish().1
    }
}

pub(crate) fn task_with(files: &[(&str, &str)]) -> Task {
    let file = |(path, data): &(&str, &str)| File { path: path.to_string(), data: data.to_string().into() };
    Task { files: files.iter().map(file).collect(), ..Task::default() }
}

pub(crate) fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, data)| (path.to_string(), data.to_string())).collect()
}
