// SPDX-License-Identifier: Apache-2.0
//
// The data of a large report stands in the page as gzip in base64 (report_page.cpp); every JSON text begins otherwise.
import { DataError } from "./load";

// Browsers of 2025 do it themselves, twice as fast.
function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

export async function unpack(source: string): Promise<string> {
  const text = source.trim();
  if (!text.startsWith("H4sI")) return text;
  if (typeof DecompressionStream === "undefined") {
    throw new DataError("This report is compressed, and this browser is too old to unpack it; one of 2023 or newer can.");
  }
  try {
    const bytes = fromBase64(text);
    return await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  } catch (error) {
    throw new DataError(`The data in this page is damaged (not gzip): ${(error as Error).message}`);
  }
}
