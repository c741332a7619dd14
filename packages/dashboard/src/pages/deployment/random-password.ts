/** Without characters that look alike. */
const CHARACTERS = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';
const LENGTH = 20;

/** A password that nobody guesses: about 116 bits. */
export function randomPassword(): string {
  let text = '';
  while (text.length < LENGTH) {
    const [byte] = crypto.getRandomValues(new Uint8Array(1)) as Uint8Array & [number];
    // bytes beyond the last whole round would make some characters likelier
    if (byte < 256 - (256 % CHARACTERS.length)) text += CHARACTERS[byte % CHARACTERS.length];
  }
  return text;
}
