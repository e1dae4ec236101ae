//! How far reading has come.

const INTERVAL: u64 = 1024 * 1024;

/// How far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file that is being read, or `standard input`.
    pub source_name: &'a str,
    /// How many files are done.
    pub files_done: u64,
    /// How many files there are.
    pub files: u64,
    /// Bytes read of all files.
    pub bytes: u64,
    /// Objects handed over.
    pub objects: u64,
}

/// Calls back once a file and once a MiB.
pub(super) struct Pulse<'p> {
    callback: &'p mut dyn FnMut(&Progress<'_>),
    source_name: String,
    files: u64,
    files_done: u64,
    bytes_of_files_done: u64,
    bytes_of_file: u64,
    due: u64,
    pub objects: u64,
}

impl<'p> Pulse<'p> {
    pub fn new(files: u64, callback: &'p mut dyn FnMut(&Progress<'_>)) -> Self {
        Self {
            callback,
            source_name: String::new(),
            files,
            files_done: 0,
            bytes_of_files_done: 0,
            bytes_of_file: 0,
            due: INTERVAL,
            objects: 0,
        }
    }

    pub fn start(&mut self, source_name: &str) {
        source_name.clone_into(&mut self.source_name);
        self.due = INTERVAL;
        self.report();
    }

    /// Says how many bytes of the current file are read.
    #[inline]
    pub fn beat(&mut self, bytes_of_file: u64) {
        self.bytes_of_file = bytes_of_file;
        if bytes_of_file >= self.due {
            self.due = bytes_of_file + INTERVAL;
            self.report();
        }
    }

    pub fn done(&mut self, bytes_of_file: u64) {
        self.bytes_of_files_done += bytes_of_file;
        self.bytes_of_file = 0;
        self.files_done += 1;
        self.report();
    }

    fn report(&mut self) {
        (self.callback)(&Progress {
            source_name: &self.source_name,
            files_done: self.files_done,
            files: self.files,
            bytes: self.bytes_of_files_done + self.bytes_of_file,
            objects: self.objects,
        });
    }
}
