//! Events too large for the heap, in rooms that are used again.

pub(super) struct Slab<T> {
    rooms: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { rooms: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        if let Some(room) = self.free.pop() {
            self.rooms[room as usize] = Some(value);
            return room;
        }
        self.rooms.push(Some(value));
        (self.rooms.len() - 1) as u32
    }

    pub(super) fn take(&mut self, room: u32) -> T {
        self.free.push(room);
        self.rooms[room as usize].take().expect("each room is emptied once")
    }
}
