/* A drawing as MNIST has it: 28 by 28 grey pixels, the digit in a box of 20, its mass in the middle. */

export const SIDE = 28;
const BOX = 20;

/** The pixels, a Uint8Array, of an image {data, width, height} in RGBA, white on nothing. */
export function picture({ data, width, height }) {
  const at = (x, y) => data[4 * (y * width + x) + 3];
  let left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      if (!at(x, y)) continue;
      left = Math.min(left, x); right = Math.max(right, x);
      top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
  }
  const pixels = new Uint8Array(SIDE * SIDE);
  if (right < 0) return pixels;

  // Means over squares of the drawing, then their centre of mass.
  const step = Math.max(right - left + 1, bottom - top + 1) / BOX;
  const small = [];
  let mass = 0, across = 0, down = 0;
  for (let y = 0; y * step <= bottom - top; ++y) {
    for (let x = 0; x * step <= right - left; ++x) {
      const grey = mean(at, left + x * step, top + y * step, step, width, height);
      small.push([x, y, grey]);
      mass += grey; across += grey * (x + 0.5); down += grey * (y + 0.5);
    }
  }
  const shift = [Math.round(SIDE / 2 - across / mass), Math.round(SIDE / 2 - down / mass)];
  for (const [x, y, grey] of small) {
    const column = x + shift[0], row = y + shift[1];
    if (0 <= column && column < SIDE && 0 <= row && row < SIDE) {
      pixels[row * SIDE + column] = Math.round(grey);
    }
  }
  return pixels;
}

function mean(at, left, top, step, width, height) {
  let total = 0, count = 0;
  for (let y = Math.floor(top); y < Math.min(top + step, height); ++y) {
    for (let x = Math.floor(left); x < Math.min(left + step, width); ++x) {
      total += at(x, y);
      ++count;
    }
  }
  return count ? total / count : 0;
}
