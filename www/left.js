// What a tab leaves for when it is loaded again: who it is, and where its units stood. Kept in
// IndexedDB under a name that one tab at a time holds, for as long as its node's Worker lives.

/** Tabs of one origin that stay who they are; what is open beyond that is new each time. Our choice. */
const NAMES = Array.from({ length: 8 }, (_, n) => `tab-${n + 1}`);
/** The Worker of the page's last life has so long to let go of its name, ms. */
const LETTING_GO = 2000;
/** A browser that has not brought anything by then will not, ms. */
const PATIENCE = 5000;

/** `{name, key, records, blobs, save}`, or nothing where it cannot be kept. `last`: the tab's name before. */
export async function takeUp(last) {
  try {
    const late = new Promise((_, no) => setTimeout(no, PATIENCE, new Error("the browser's storage does not answer")));
    return await Promise.race([read(last), late]);
  } catch (error) {
    console.info(`When this tab is loaded again, its node will be another: ${error?.message ?? error}`);
  }
}

async function read(last) {
  const database = await open();
  const name = await hold(last);
  const all = IDBKeyRange.bound([name], [name, []]);
  const get = database.transaction(["keys", "records", "blobs"]);
  const entries = (store) => Promise.all([done(get.objectStore(store).getAllKeys(all)), done(get.objectStore(store).getAll(all))]);
  const [known, records, blobs] = await Promise.all([done(get.objectStore("keys").get(name)), entries("records"), entries("blobs")]);
  const key = known ?? crypto.getRandomValues(new Uint8Array(32));
  if (!known) await done(database.transaction("keys", "readwrite").objectStore("keys").put(key, name));
  const pairs = ([keys, values]) => keys.map(([, id], n) => [new Uint8Array(id), values[n]]);
  return { name, key, records: pairs(records), blobs: pairs(blobs), save: (...changes) => save(database, name, changes) };
}

/** All of it or nothing, some time soon. */
function save(database, name, [records, blobs]) {
  const write = database.transaction(["records", "blobs"], "readwrite");
  const put = (store, [id, bytes]) => (bytes ? store.put(bytes, [name, id]) : store.delete([name, id]));
  for (const entry of records) put(write.objectStore("records"), entry);
  for (const entry of blobs) put(write.objectStore("blobs"), entry);
  write.onabort = () => console.warn(`What runs here was not kept for a reload: ${write.error?.message}`);
}

function open() {
  const request = indexedDB.open("manyhands", 1);
  request.onupgradeneeded = () => ["keys", "records", "blobs"].forEach((name) => request.result.createObjectStore(name));
  return done(request);
}

const done = (request) =>
  new Promise((yes, no) => {
    request.onsuccess = () => yes(request.result);
    request.onerror = () => no(request.error);
  });

/** The name that is this Worker's from now on: the one it had, or the first that is free. */
async function hold(last) {
  if (NAMES.includes(last) && (await request(last, { signal: AbortSignal.timeout(LETTING_GO) }))) return last;
  for (const name of NAMES) if (await request(name, { ifAvailable: true })) return name;
  throw new Error("too many tabs are open");
}

const request = (name, options) =>
  new Promise((held) => {
    const got = (lock) => {
      held(!!lock);
      // Until the Worker ends.
      return lock && new Promise(() => {});
    };
    navigator.locks.request(`manyhands-${name}`, options, got).catch(() => held(false));
  });
