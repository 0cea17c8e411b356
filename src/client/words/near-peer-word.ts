/** Owns the suggestion for a mistyped word for devices: `label:app`, `device:web-1`, `all-devices`. */
import { closestWord } from './closest-word.ts';

/** The words for devices that a mistyped word is nearest to: `label:app` for `lable:app`. */
export function nearPeerWord(text: string): string | undefined {
  const at = text.search(/[:=]/);
  const [prefix, rest] = [text.slice(0, Math.max(at, 0)).trim(), text.slice(at + 1).trim()];
  if (/^[a-z]+$/i.test(prefix) && rest !== '') {
    // Four hexadecimal digits are the beginning of an IPv6 address.
    const near = /^[0-9a-f]{1,4}$/i.test(prefix) ? undefined : closestWord(prefix, ['label', 'labels', 'device']);
    return near === undefined ? undefined : `${near === 'labels' ? 'label' : near}:${rest}`;
  }
  return /^all/i.test(text) ? closestWord(text, ['all-devices']) : undefined;
}
