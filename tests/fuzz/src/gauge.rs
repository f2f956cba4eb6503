//! How much memory something takes: an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread holds more than it did, and the most that it ever held.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // A thread that ends frees what it has after its counters are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // It may have to be copied: then both are held for a moment.
        count(size as isize);
        let moved = unsafe { System.realloc(at, layout, size) };
        count(-(layout.size() as isize));
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread holds more than when it began.
#[cfg(test)]
pub(crate) fn held() -> isize {
    HELD.get()
}

/// Does `what`, which must not hold more than `bound` bytes more than before at any time.
pub(crate) fn within<T>(bound: usize, what: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    MOST.set(before);
    let done = what();
    let most = MOST.get() - before;
    assert!(most <= bound as isize, "it took {most} bytes of memory, and {bound} is its bound");
    done
}
