/* Functions that tfn has exported as WebAssembly, in a browser or in node.

     import { load } from "./tfn.js";
     const digit = await load(await fetch("digit.wasm"));
     const { out } = digit({ pixels: new Uint8Array(784) });

   A function takes an object of typed arrays by the names of its inputs, and gives another of its
   outputs.  Its own arrays, `digit.arrays`, lie in the memory of the module: what is written there
   need not be passed again. */

const ABI = 1;
const HEAD_BYTES = 16; // of the struct, before its pointers
const ERRORS = ["", "another version", "a null pointer", "a misaligned address", "too small an arena"];

const TYPES = {
  bool: Uint8Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
  uint64: BigUint64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array,
  float64: Float64Array, complex64: Float32Array, complex128: Float64Array,
};

/** The function of a module: of its bytes, or of a response that brings them. */
export async function load(source) {
  const bytes = source.arrayBuffer ? await source.arrayBuffer() : source;
  const module = await WebAssembly.compile(bytes); // refuses what is cut short
  if (WebAssembly.Module.imports(module).length) throw new Error("the module wants imports: tfn's want none");
  const { exports } = await WebAssembly.instantiate(module);
  return link(exports, manifest(exports));
}

/** What the module says of itself. */
function manifest(exports) {
  const name = Object.keys(exports).find((key) => key.endsWith("_manifest"));
  if (!name) throw new Error("this module was not exported by tfn");
  const memory = new Uint8Array(exports.memory.buffer, exports[name].value);
  const text = new TextDecoder().decode(memory.subarray(0, memory.indexOf(0)));
  const found = JSON.parse(text.slice(text.indexOf("{")));
  if (found.abi !== ABI) throw new Error(`the module has ABI ${found.abi}, and this file ${ABI}`);
  return found;
}

/** A function over memory that is laid out once: the struct, all arrays, the arena. */
function link(exports, signature) {
  const fields = [...signature.inputs, ...signature.outputs];
  let end = exports.__heap_base.value;
  const place = (size) => {
    const start = Math.ceil(end / signature.arena_alignment) * signature.arena_alignment;
    end = start + size;
    return start;
  };
  const struct = place(HEAD_BYTES + 4 * fields.length);
  const places = fields.map((field) => place(length(field) * TYPES[field.dtype].BYTES_PER_ELEMENT));
  const arena = place(signature.arena_bytes + 1);
  const missing = end - exports.memory.buffer.byteLength;
  if (missing > 0) exports.memory.grow(Math.ceil(missing / 65536));

  const buffer = exports.memory.buffer;
  const head = new DataView(buffer, struct);
  head.setUint32(0, signature.abi, true);
  head.setUint32(4, signature.program, true);
  head.setBigUint64(8, BigInt(signature.arena_bytes), true);
  const arrays = {};
  fields.forEach((field, i) => {
    head.setUint32(HEAD_BYTES + 4 * i, places[i], true);
    arrays[field.name] = new TYPES[field.dtype](buffer, places[i], length(field));
  });

  const run = (inputs = {}) => {
    for (const [name, values] of Object.entries(inputs)) {
      check(signature, name, values);
      arrays[name].set(values);
    }
    const error = exports[signature.name](struct, arena);
    if (error) throw new Error(`${signature.name} refuses the call: ${ERRORS[error]}`);
    return Object.fromEntries(signature.outputs.map(({ name }) => [name, arrays[name]]));
  };
  return Object.assign(run, { signature, arrays });
}

/** How many elements an array has; a complex number is two. */
function length(field) {
  return field.shape.reduce((product, n) => product * n, field.dtype.startsWith("complex") ? 2 : 1);
}

function check(signature, name, values) {
  const field = signature.inputs.find((input) => input.name === name);
  if (!field) throw new Error(`${signature.name} has no input ${name}`);
  const type = TYPES[field.dtype];
  if (!(values instanceof type) || values.length !== length(field)) {
    throw new Error(
      `${name} must be a ${type.name} of ${length(field)} elements (${field.dtype}[${field.shape}]), ` +
      `not ${values?.constructor?.name} of ${values?.length}`);
  }
}
