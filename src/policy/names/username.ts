/** Owns the rule for usernames, and which names look so alike that only one user may have them. */

import { defaultLimits } from '../limits.ts';

/** Characters that show nothing, reorder a line or have no meaning: controls, formats, unassigned ones, fillers, blanks other than a space. */
const unseen = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** Scripts whose letters can pass for those of another one of them. A name takes its letters from one. */
const lookAlikeScripts = [
  /\p{Script=Latin}/u,
  /\p{Script=Cyrillic}/u,
  /\p{Script=Greek}/u,
  /\p{Script=Armenian}/u,
  /\p{Script=Cherokee}/u,
];

/** Letters in lower case, each with the Latin one that it looks like, in lower or upper case. */
const lookAlikes = [
  'аa еe оo рp сc уy хx іi јj ѕs ԁd ԛq ԝw һh ӏl вb кk мm нh тt ѵv ԍg', // Cyrillic
  'αa οo ρp τt υu ιi κk νv χx βb εe ζz μm ηn γy ϳj', // Greek
  'օo սu ոn հh յj ցg զq', // Armenian
  'ꭰd ꭱr ꭲt ꭺa ꭻj ꭼe ꮃw ꮇm ꮋh ꮍy ꮐg ꮒh ꮓz ꮟb ꮢr ꮩv ꮪs ꮮl ꮯc ꮲp ꮶk', // Cherokee
  'ıi ɑa ɡg', // Latin
];
const latinOf = new Map(
  lookAlikes.flatMap((line) => line.split(' ')).map((pair) => [pair.slice(0, -1), pair.slice(-1)] as const),
);

const isMixed = (name: string): boolean => lookAlikeScripts.filter((script) => script.test(name)).length > 1;

/** The name as it is kept; undefined where it has characters that cannot be seen, mixes look-alike scripts, is empty or too long. */
export function readUsername(text: string): string | undefined {
  const name = text.normalize('NFKC').trim();
  // One character may stand for many: the length counts as it is kept.
  const isGood = name !== '' && name.length <= defaultLimits.nameLength && name.search(unseen) === -1 && !isMixed(name);
  return isGood ? name : undefined;
}

/** Leaves room for the suffix that distinguishes a suggested name from that of another user. */
const longestSuggestion = defaultLimits.nameLength - 5;

/** What a provider suggests, cut, without characters that cannot be seen; undefined where nothing is left or it mixes look-alike scripts. */
export const cleanUsername = (text: string): string | undefined =>
  // What is cut may leave half of a character at the end.
  readUsername(text.normalize('NFKC').replace(unseen, '').slice(0, longestSuggestion).replace(unseen, ''));

/** Equal for names that people could take for each other: letter case, width, spaces, and letters that look like Latin ones do not count. */
export const usernameKey = (name: string): string =>
  [...name.normalize('NFKC').replace(unseen, '').toLowerCase().normalize('NFKC')]
    .map((letter) => latinOf.get(letter) ?? letter)
    .join('')
    .trim()
    .replace(/ {2,}/g, ' ');
