//! Small programs, in WebAssembly's text.

/// Copies standard input to standard output and writes "done" to standard error.
pub(crate) const CAT: &str = r#"
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 64) "done\n")
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 0) (i32.const 1024))
      (i32.store (i32.const 4) (i32.const 65536))
      (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (if (i32.load (i32.const 8)) (then
        (i32.store (i32.const 4) (i32.load (i32.const 8)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))
        (br $more))))
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 5))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 12)))))
"#;

/// Exits with the number of bytes on standard input.
pub(crate) const EXIT_WITH_LENGTH: &str = r#"
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 65536))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $exit (i32.load (i32.const 8)))))
"#;

/// Prints its arguments, each ended by NUL, the name of the program first.
pub(crate) const ARGUMENTS: &str = r#"
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (drop (call $get (i32.const 1024) (i32.const 65536)))
    (i32.store (i32.const 0) (i32.const 65536))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
"#;

/// Prints its environment variables, each ended by NUL.
pub(crate) const ENVIRONMENT: &str = r#"
(module
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (drop (call $get (i32.const 1024) (i32.const 65536)))
    (i32.store (i32.const 0) (i32.const 65536))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
"#;

/// Writes to standard error what a terminal would obey, and fails with the code 3.
pub(crate) const COMPLAIN: &str = r#"
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "no \1b[1mroom\n\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 13))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 12)))
    (call $exit (i32.const 3))))
"#;

pub(crate) const TRAP: &str = r#"(module (memory (export "memory") 1) (func (export "_start") unreachable))"#;

pub(crate) const FOREVER: &str =
    r#"(module (memory (export "memory") 1) (func (export "_start") (loop $l (br $l))))"#;

/// Writes to standard output without end.
pub(crate) const CHATTER: &str = r#"
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 65536))
    (loop $more
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br $more))))
"#;

/// Wants what nobody offers.
pub(crate) const STRANGE_IMPORTS: &str = r#"
(module
  (import "env" "launch_rocket" (func (param i32)))
  (import "wasi_snapshot_preview1" "no_such_function" (func))
  (memory (export "memory") 1)
  (func (export "_start")))
"#;

pub(crate) const NO_START: &str = r#"(module (memory (export "memory") 1) (func (export "main")))"#;

/// Computes for the longer the more there is on standard input (a second for 60 KB), then
/// prints its first ten bytes.
pub(crate) const SLOW_HEAD: &str = r#"
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "_start") (local $left i32) (local $x i32)
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 65536))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (local.set $left (i32.mul (i32.load (i32.const 8)) (i32.const 20000)))
    (local.set $x (i32.const 1))
    (loop $more
      (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 13))))
      (local.set $x (i32.xor (local.get $x) (i32.shr_u (local.get $x) (i32.const 17))))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $more (i32.gt_s (local.get $left) (i32.const 0))))
    (i32.store (i32.const 16) (local.get $x))
    (i32.store (i32.const 4) (i32.const 10))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)))))
"#;

/// Has a call that gives a vector: one of wasmer's compilers panics.
pub(crate) const VECTOR: &str = r#"(module (memory (export "memory") 1) (table 1 funcref)
    (type $gives (func (result v128)))
    (func (export "_start")
        (if (i32.const 0) (then (drop (call_indirect (type $gives) (i32.const 0)))))
        (loop (br_if 0 (i32.const 0)))))"#;
