// `manyhands bench instrument` runs this in a page: kernels with as little of a host as they call.

globalThis.manyhandsBench = async ({ raw, with: suspendable, exact, asyncify, arguments: words, file, runs }) => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const compile = (text) => (text ? WebAssembly.compile(bytes(text)) : null);
  const modules = await Promise.all([raw, suspendable, exact, asyncify].map(compile));
  const content = file ? bytes(file.data) : null;
  const encoder = new TextEncoder();

  function host() {
    let memory;
    const view = () => new DataView(memory.buffer);
    const out = [];
    let at = 0;
    const list = (strings) => ({
      sizes(count, size) {
        view().setUint32(count, strings.length, true);
        view().setUint32(size, strings.reduce((sum, s) => sum + s.length + 1, 0), true);
        return 0;
      },
      get(pointers, text) {
        for (const s of strings) {
          view().setUint32(pointers, text, true);
          new Uint8Array(memory.buffer).set([...s, 0], text);
          pointers += 4;
          text += s.length + 1;
        }
        return 0;
      },
    });
    const args = list(["task", ...words].map((word) => encoder.encode(word)));
    const nothing = list([]);
    const known = {
      args_sizes_get: args.sizes, args_get: args.get,
      environ_sizes_get: nothing.sizes, environ_get: nothing.get,
      fd_write(fd, vectors, count, written) {
        let total = 0;
        for (let i = 0; i < count; i += 1) {
          const [from, length] = [view().getUint32(vectors + 8 * i, true), view().getUint32(vectors + 8 * i + 4, true)];
          out.push(new TextDecoder().decode(new Uint8Array(memory.buffer, from, length)));
          total += length;
        }
        view().setUint32(written, total, true);
        return 0;
      },
      fd_prestat_get(fd, stat) {
        if (fd !== 3) return 8;
        view().setUint32(stat, 0, true);
        view().setUint32(stat + 4, 1, true);
        return 0;
      },
      fd_prestat_dir_name(fd, path) {
        new Uint8Array(memory.buffer)[path] = 47;
        return 0;
      },
      path_open(...rest) {
        view().setUint32(rest.at(-1), 4, true);
        return content ? 0 : 44;
      },
      fd_filestat_get(fd, stat) {
        new Uint8Array(memory.buffer).fill(0, stat, stat + 64);
        new Uint8Array(memory.buffer)[stat + 16] = 4;
        view().setBigUint64(stat + 32, BigInt(content?.length ?? 0), true);
        return 0;
      },
      fd_read(fd, vectors, count, read) {
        let total = 0;
        for (let i = 0; i < count && fd === 4; i += 1) {
          const [to, length] = [view().getUint32(vectors + 8 * i, true), view().getUint32(vectors + 8 * i + 4, true)];
          const part = content.subarray(at, at + length);
          new Uint8Array(memory.buffer).set(part, to);
          at += part.length;
          total += part.length;
        }
        view().setUint32(read, total, true);
        return 0;
      },
      fd_seek(fd, offset, whence, now) {
        at = whence === 0 ? Number(offset) : whence === 1 ? at + Number(offset) : content.length + Number(offset);
        view().setBigUint64(now, BigInt(at), true);
        return 0;
      },
      proc_exit(code) {
        throw new Error(`exit ${code}`);
      },
    };
    const wasi = new Proxy(known, { get: (all, name) => all[name] ?? (() => 0), has: () => true });
    return { imports: { wasi_snapshot_preview1: wasi }, use: (own) => (memory = own), out };
  }

  function once(module) {
    const { imports, use, out } = host();
    const names = WebAssembly.Module.imports(module).map(({ name }) => name);
    const wasi = Object.fromEntries(names.map((name) => [name, imports.wasi_snapshot_preview1[name]]));
    const { exports } = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi });
    use(exports.memory);
    const [state, fuel, refuel] = ["state", "fuel", "refuel"].map((name) => exports[`manyhands.${name}`]);
    const began = performance.now();
    try {
      if (!state) exports._start();
      else {
        let slice = 100_000n;
        fuel.value = slice;
        let since = performance.now();
        exports._start();
        while (state.value === 1) {
          const took = Math.max(0.05, performance.now() - since);
          slice = BigInt(Math.max(1000, Math.round(Math.min(Number(slice) * 4, (Number(slice) * 5) / took))));
          state.value = 2;
          fuel.value = -1n;
          refuel.value = slice;
          since = performance.now();
          exports._start();
        }
      }
    } catch (error) {
      if (error.message !== "exit 0") throw error;
    }
    return { ms: performance.now() - began, text: out.join("") };
  }

  const times = { raw: [], with: [], exact: [], asyncify: [] };
  // V8 compiles what is hot again: the first run is not counted.
  const forms = Object.keys(times).map((name, i) => [name, modules[i]]).filter(([, module]) => module);
  for (const [, module] of forms) once(module);
  for (let run = 0; run < runs; run += 1) {
    const texts = new Set();
    for (const [name, module] of forms) {
      const { ms, text } = once(module);
      times[name].push(ms);
      texts.add(text);
    }
    if (texts.size !== 1) throw new Error("a suspendable program printed something else");
  }
  return times;
};
