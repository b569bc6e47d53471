/* The part of an exported page that is the same for all: memory, commands and weights.

   PROGRAM is what `tfn.export` has written of the function: names and shapes, shaders, commands.
   FILES has those that are no files of their own, in base64. */

const TYPES = {
  bool: Uint8Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
  uint64: BigUint64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array,
  float64: Float64Array, complex64: Float32Array, complex128: Float64Array,
};
const NARROW = Uint8Array; // floats of 8 bits, as bytes
const ABI = 1; // of WebAssembly: the struct, its head before the pointers, its errors
const HEAD_BYTES = 16;
const ERRORS = ["", "another version", "a null pointer", "a misaligned address", "too small an arena"];
const SLOT_BYTES = 256; // between the uniforms of two launches: a multiple on every device
const MAX_LAUNCHES = 256; // of a command buffer: the device begins while the next are written
const MAX_GROUPS = 65535; // along an axis of a grid
const GUARANTEED = { maxStorageBufferBindingSize: 2 ** 27, maxBufferSize: 2 ** 28, maxComputeWorkgroupStorageSize: 2 ** 14 };

const typeOf = (field) => TYPES[field.dtype] ?? NARROW;
const lengthOf = (field) => field.shape.reduce((n, m) => n * m, field.dtype.startsWith("complex") ? 2 : 1);
const bytesOf = (field) => lengthOf(field) * typeOf(field).BYTES_PER_ELEMENT;
const words = (bytes) => Math.max(4, Math.ceil(bytes / 4) * 4);

/** The function, once its weights are there; see the .d.ts file for the options. */
export async function load(options = {}) {
  const reading = weightsOf(options);
  reading.catch(() => {}); // it is awaited below
  let why = "";
  if (options.backend !== "wasm") {
    try {
      if (!PROGRAM.shaders) throw new Error("it was exported for WebAssembly alone");
      const gpu = await OnWebGpu.open(options.device);
      return gpu.begin(await reading, options.carry);
    } catch (error) {
      if (options.backend === "webgpu" || !PROGRAM.wasm) throw error;
      why = error.message;
    }
  }
  const wasm = await OnWebAssembly.open(options.wasm);
  wasm.reason = why;
  return wasm.begin(await reading, options.carry);
}

/** Bytes: given, or of an address beside this file; progress(loaded, total) is told meanwhile. */
async function bytesFrom(source, file, progress = () => {}) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const own = source === undefined && FILES[file];
  const url = new URL(own ? `data:application/octet-stream;base64,${own}` : source ?? file, import.meta.url);
  if (url.protocol === "file:" && globalThis.process) {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${source ?? file} cannot be read: ${response.status} ${response.statusText}`);
  const parts = [], total = Number(response.headers.get("content-length"));
  let loaded = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    loaded += value.length;
    progress(loaded, Math.max(total, loaded));
  }
  const whole = new Uint8Array(loaded);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The bytes of each constant, in the order of PROGRAM.constants. */
async function weightsOf({ weights, progress }) {
  if (!PROGRAM.constants.length) return [];
  const data = await bytesFrom(weights, PROGRAM.weights, progress);
  const wrong = new Error(`${PROGRAM.weights} is not the file that was exported with this function`);
  if (data.length < 8) throw wrong;
  const size = Number(new DataView(data.buffer, data.byteOffset).getBigUint64(0, true));
  if (data.length < 8 + size) throw wrong;
  const header = JSON.parse(new TextDecoder().decode(data.subarray(8, 8 + size)));
  if (header.__metadata__?.program !== PROGRAM.digest) throw wrong;
  return PROGRAM.constants.map(({ path }) => {
    const [begin, end] = header[path].data_offsets;
    if (8 + size + end > data.length) throw wrong;
    return data.subarray(8 + size + begin, 8 + size + end);
  });
}

/** What both backends do: arguments are checked, one run follows the other. */
class Loaded {
  constructor(backend) {
    this.backend = backend;
    this.reason = "";
    this.inputs = PROGRAM.inputs;
    this.outputs = PROGRAM.outputs;
    this.carried = [];
    this.missing = new Set(PROGRAM.inputs.map(({ name }) => name));
    this.last = Promise.resolve();
  }

  /** Pairs of an output and the input that takes its value after each run, by paths. */
  carry(paths = {}) {
    for (const [from, to] of Object.entries(paths)) {
      const pairs = PROGRAM.outputs.filter(({ path }) => path === from || /^[.[]/.test(path.slice(from.length)) && path.startsWith(from))
        .map((output) => [output, PROGRAM.inputs.find(({ path }) => path === to + output.path.slice(from.length))]);
      for (const [output, input] of pairs) {
        if (!input || input.dtype !== output.dtype || `${input.shape}` !== `${output.shape}`) {
          throw new Error(`${output.path} cannot be carried to ${to}: there is no such input of its shape and dtype`);
        }
      }
      if (!pairs.length) throw new Error(`there is no output ${from}: outputs are ${PROGRAM.outputs.map((x) => x.path)}`);
      this.carried.push(...pairs);
    }
  }

  /** Outputs by name, typed arrays.  An input that is left out keeps its value, unless it is donated. */
  async run(inputs = {}, names = this.outputs.map(({ name }) => name)) {
    const given = Object.entries(inputs).map(([name, values]) => // copies: the caller may change them
      [check(name, values), values.slice()]);
    const missing = [...this.missing].filter((name) => !(name in inputs));
    if (missing.length) throw new Error(`${PROGRAM.name} needs ${missing.join(", ")}`);
    const wanted = names.map((name) => {
      const field = this.outputs.find((output) => output.name === name);
      if (!field) throw new Error(`${PROGRAM.name} has no output ${name}`);
      return field;
    });
    this.missing = new Set(this.inputs.filter(({ donated }) => donated).map(({ name }) => name));
    for (const [, input] of this.carried) this.missing.delete(input.name);
    const before = this.last;
    const both = (async () => {
      await before;
      return this.step(given, wanted); // a promise of what is read, which the next run need not await
    })();
    this.last = both.then(() => {}, () => {});
    return both.then(({ reading }) => reading);
  }
}

function check(name, values) {
  const field = PROGRAM.inputs.find((input) => input.name === name);
  if (!field) throw new Error(`${PROGRAM.name} has no input ${name}`);
  const type = typeOf(field);
  if (!(values instanceof type) || values.length !== lengthOf(field)) {
    throw new Error(
      `${name} must be a ${type.name} of ${lengthOf(field)} elements (${field.dtype}[${field.shape}]), ` +
      `not ${values?.constructor?.name} of ${values?.length}`);
  }
  return field;
}

class OnWebGpu extends Loaded {
  /** Memories and pipelines on a device of the browser. */
  static async open(device) {
    if (!device) {
      const adapter = await globalThis.navigator?.gpu?.requestAdapter({ powerPreference: "high-performance" });
      if (!adapter) throw new Error("there is no WebGPU here");
      const requiredLimits = {};
      for (const [name, least] of Object.entries(GUARANTEED)) {
        const largest = name === "maxComputeWorkgroupStorageSize" ? PROGRAM.shared : Math.max(...PROGRAM.memories);
        if (largest > adapter.limits[name]) throw new Error(`${name} of this GPU is ${adapter.limits[name]}, and ${largest} are needed`);
        requiredLimits[name] = Math.max(least, largest);
      }
      device = await adapter.requestDevice({ requiredLimits });
    }
    const self = new OnWebGpu("webgpu");
    self.device = device;
    self.lost = "";
    device.lost.then(({ message }) => { self.lost = `the GPU was lost: ${message}`; });
    await self.make();
    return self;
  }

  async make() {
    const { device } = this, usage = GPUBufferUsage;
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation");
    this.memories = PROGRAM.memories.map((size) =>
      device.createBuffer({ size: words(size), usage: usage.STORAGE | usage.COPY_SRC | usage.COPY_DST }));
    this.scratch = null;
    this.free = []; // buffers that results are read from
    const compute = GPUShaderStage.COMPUTE;
    this.pipelines = await Promise.all(PROGRAM.shaders.map(async ({ text, writes }) => {
      const entries = [{ binding: 0, visibility: compute, buffer: { type: "uniform", hasDynamicOffset: true } }];
      writes.forEach((written, i) => entries.push({
        binding: i + 1, visibility: compute, buffer: { type: written ? "storage" : "read-only-storage" },
      }));
      const layout = device.createBindGroupLayout({ entries });
      const pipeline = await device.createComputePipelineAsync({
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module: device.createShaderModule({ code: text }), entryPoint: "main" },
      });
      return { layout, pipeline };
    }));
    this.launches = [];
    const collect = (commands) => commands.forEach((command) => {
      if (command.shader !== undefined) this.launches.push(command);
      for (const part of [command.head, command.body, ...(command.branches ?? [])]) if (part) collect(part);
    });
    collect(PROGRAM.commands);
    // Uniforms: of launches that are the same in every run, written once; of those in loops, each time.
    this.slot = Math.max(SLOT_BYTES, ...this.launches.map(({ at }) => Math.ceil((16 + 4 * at.length) / SLOT_BYTES) * SLOT_BYTES));
    const fixed = this.launches.filter(({ at }) => !at.some(Array.isArray));
    const data = new Uint32Array(this.slot / 4 * fixed.length);
    this.fixed = this.uniforms(Math.max(fixed.length, 1));
    this.moving = this.uniforms(MAX_LAUNCHES);
    this.staged = new Uint32Array(this.slot / 4 * MAX_LAUNCHES);
    this.records = new Map(this.launches.map((command) => {
      const { layout, pipeline } = this.pipelines[command.shader];
      const number = fixed.indexOf(command);
      const buffers = [{ buffer: number < 0 ? this.moving : this.fixed, size: this.slot },
        ...command.memories.map((memory) => ({ buffer: this.memories[memory] }))];
      const group = device.createBindGroup({ layout, entries: buffers.map((resource, binding) => ({ binding, resource })) });
      if (number >= 0) this.place(data, number, command);
      return [command, { pipeline, group, number }];
    }));
    if (fixed.length) device.queue.writeBuffer(this.fixed, 0, data);
    for (const _ of [0, 1]) {
      const error = await device.popErrorScope();
      if (error) throw new Error(error.message);
    }
    device.addEventListener("uncapturederror", ({ error }) => { this.lost ||= error.message; });
  }

  uniforms(count) {
    return this.device.createBuffer({ size: this.slot * count, usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST });
  }

  /** Write the uniforms of a launch: the number of groups, and the offsets of its operands. */
  place(data, number, { groups, at }) {
    const start = this.slot / 4 * number;
    data[start + 1] = groups;
    at.forEach((offset, i) => { data[start + 4 + i] = this.offset(offset); });
  }

  offset(at) {
    if (!Array.isArray(at)) return at;
    return at.slice(1).reduce((sum, [loop, step]) => sum + this.loops[loop] * step, at[0]);
  }

  begin(weights, carry) {
    this.carry(carry);
    weights.forEach((data, i) => this.write(PROGRAM.constants[i].place, data));
    return this;
  }

  write([memory, at], data) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const whole = bytes.length % 4 ? new Uint8Array(words(bytes.length)) : bytes;
    if (whole !== bytes) whole.set(bytes);
    if (whole.length) this.device.queue.writeBuffer(this.memories[memory], at, whole);
  }

  async step(given, wanted) {
    if (this.lost) throw new Error(this.lost);
    for (const [field, values] of given) this.write(field.place, values);
    this.loops = {};
    this.encoder = this.pass = null;
    this.count = this.moved = 0;
    await this.flow(PROGRAM.commands);
    const reading = this.read(wanted.map((field) => [...field.place, bytesOf(field)])).then((parts) =>
      Object.fromEntries(wanted.map((field, i) => [field.name, new (typeOf(field))(parts[i])])));
    reading.catch(() => {});
    const moves = this.carried.filter(([from, to]) => `${from.place}` !== `${to.place}`);
    this.copy(moves.map(([from, to]) => [from.place, to.place, words(bytesOf(from))]));
    this.submit();
    return { reading };
  }

  /** Commands in order; the host waits for what a loop or a branch asks. */
  async flow(commands) {
    for (const command of commands) {
      if (command.shader !== undefined) this.launch(command);
      else if (command.branches) {
        const index = new Int32Array(await this.word(command.index))[0];
        await this.flow(command.branches[Math.min(Math.max(index, 0), command.branches.length - 1)]);
      } else {
        for (let i = 0; command.trips === null || i < command.trips; ++i) {
          this.loops[command.loop] = i;
          if (command.condition) {
            await this.flow(command.head);
            if (!new Uint8Array(await this.word(command.condition))[0]) break;
          }
          await this.flow(command.body);
        }
      }
    }
  }

  async word({ memory, at, strides }) {
    const offset = this.offset([at, ...strides]), start = offset - offset % 4;
    const [part] = await this.read([[memory, start, 8]]);
    return part.slice(offset - start);
  }

  launch(command) {
    const { pipeline, group, number } = this.records.get(command);
    if (this.count === MAX_LAUNCHES) this.submit();
    this.encoder ??= this.device.createCommandEncoder();
    this.pass ??= this.encoder.beginComputePass();
    let slot = number;
    if (slot < 0) this.place(this.staged, slot = this.moved++, command);
    this.pass.setPipeline(pipeline);
    this.pass.setBindGroup(0, group, [slot * this.slot]);
    this.pass.dispatchWorkgroups(Math.min(command.groups, MAX_GROUPS), Math.ceil(command.groups / MAX_GROUPS));
    ++this.count;
  }

  /** An encoder of copies, after the launches so far. */
  copies() {
    this.pass?.end();
    this.pass = null;
    return this.encoder ??= this.device.createCommandEncoder();
  }

  submit() {
    if (!this.encoder) return;
    this.pass?.end();
    if (this.moved) this.device.queue.writeBuffer(this.moving, 0, this.staged, 0, this.slot / 4 * this.moved);
    this.device.queue.submit([this.encoder.finish()]);
    this.encoder = this.pass = null;
    this.count = this.moved = 0;
  }

  /** The bytes of places, each an ArrayBuffer. */
  async read(places) {
    if (!places.length) return [];
    let size = 0;
    const starts = places.map(([, , bytes]) => { const start = size; size += Math.ceil(words(bytes) / 8) * 8; return start; });
    const fits = this.free.findIndex((buffer) => buffer.size >= size);
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const buffer = fits < 0 ? this.device.createBuffer({ size, usage }) : this.free.splice(fits, 1)[0];
    const encoder = this.copies();
    places.forEach(([memory, at, bytes], i) => {
      const length = Math.min(words(bytes), this.memories[memory].size - at);
      encoder.copyBufferToBuffer(this.memories[memory], at, buffer, starts[i], length);
    });
    this.submit();
    try {
      await buffer.mapAsync(GPUMapMode.READ, 0, size);
    } catch (error) {
      throw new Error(this.lost || error.message);
    }
    const range = buffer.getMappedRange(0, size);
    const parts = places.map(([, , bytes], i) => range.slice(starts[i], starts[i] + bytes));
    buffer.unmap();
    this.free.push(buffer);
    if (this.lost) throw new Error(this.lost);
    return parts;
  }

  /** Copy places to others, as if all at once. */
  copy(moves) {
    const size = moves.reduce((sum, [, , bytes]) => sum + bytes, 0);
    if (!size) return;
    if ((this.scratch?.size ?? 0) < size) {
      this.scratch?.destroy();
      this.scratch = this.device.createBuffer({ size, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
    }
    const encoder = this.copies();
    for (const there of [true, false]) {
      let at = 0;
      for (const [[from, begin], [to, end], bytes] of moves) {
        if (there) encoder.copyBufferToBuffer(this.memories[from], begin, this.scratch, at, bytes);
        else encoder.copyBufferToBuffer(this.scratch, at, this.memories[to], end, bytes);
        at += bytes;
      }
    }
  }

  destroy() {
    this.lost ||= "it was destroyed";
    for (const buffer of [...this.memories, ...this.free, this.fixed, this.moving, this.scratch]) buffer?.destroy();
  }
}

class OnWebAssembly extends Loaded {
  /** An instance of the module, whose memory is laid out once: the struct, all arrays, the arena. */
  static async open(source) {
    const module = await WebAssembly.compile(await bytesFrom(source, PROGRAM.wasm));
    if (WebAssembly.Module.imports(module).length) throw new Error("the module wants imports: tfn's want none");
    const self = new OnWebAssembly("wasm");
    self.exports = (await WebAssembly.instantiate(module)).exports;
    const { memory } = self.exports;
    const manifest = self.exports[`${PROGRAM.name}_manifest`];
    if (!manifest) throw new Error(`${PROGRAM.wasm} was not exported with this function`);
    const text = new Uint8Array(memory.buffer, manifest.value);
    const found = new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
    self.signature = JSON.parse(found.slice(found.indexOf("{")));
    if (self.signature.abi !== ABI) throw new Error(`the module has ABI ${self.signature.abi}, and this file ${ABI}`);
    return self;
  }

  begin(weights, carry) {
    this.carry(carry);
    const { signature, exports } = this, fields = [...signature.inputs, ...signature.outputs];
    let end = exports.__heap_base.value;
    const place = (size) => {
      const start = Math.ceil(end / signature.arena_alignment) * signature.arena_alignment;
      end = start + size;
      return start;
    };
    this.struct = place(HEAD_BYTES + 4 * fields.length);
    const places = fields.map((field) => place(bytesOf(field)));
    this.arena = place(signature.arena_bytes + 1);
    const lacking = end - exports.memory.buffer.byteLength;
    if (lacking > 0) exports.memory.grow(Math.ceil(lacking / 65536));
    const { buffer } = exports.memory;
    const head = new DataView(buffer, this.struct);
    head.setUint32(0, signature.abi, true);
    head.setUint32(4, signature.program, true);
    head.setBigUint64(8, BigInt(signature.arena_bytes), true);
    this.arrays = {};
    const constants = new Map(PROGRAM.constants.map(({ path }, i) => [path, weights[i]]));
    fields.forEach((field, i) => {
      head.setUint32(HEAD_BYTES + 4 * i, places[i], true);
      if (i < signature.inputs.length && constants.has(field.path)) {
        new Uint8Array(buffer, places[i], bytesOf(field)).set(constants.get(field.path));
      } else this.arrays[field.name] = new (typeOf(field))(buffer, places[i], lengthOf(field));
    });
    return this;
  }

  step(given, wanted) {
    for (const [{ name }, values] of given) this.arrays[name].set(values);
    const error = this.exports[PROGRAM.name](this.struct, this.arena);
    if (error) throw new Error(`${PROGRAM.name} refuses the call: ${ERRORS[error]}`);
    const reading = Object.fromEntries(wanted.map(({ name }) => [name, this.arrays[name].slice()]));
    const values = this.carried.map(([output]) => this.arrays[output.name].slice());
    this.carried.forEach(([, input], i) => this.arrays[input.name].set(values[i]));
    return { reading };
  }

  destroy() {
    this.exports = null;
  }
}
