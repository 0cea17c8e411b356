/** Owns the time that the agent saves for its next start, so that a clock that is set back meanwhile prolongs nothing. */
import { field, isObject } from '../../policy/json.ts';

export interface SavedTime {
  /** The furthest time that the agent knew of, in milliseconds since the epoch. */
  readonly time: number;
  /** Milliseconds by which the server's clock was ahead of the device's; negative where it was behind. */
  readonly offset: number;
}

const format = 1;

export const printSavedTime = ({ time, offset }: SavedTime): string =>
  `${JSON.stringify({ format, time: Math.round(time), offset: Math.round(offset) })}\n`;

/** Nothing where the text cannot be read: then the saved policy tells its own time. */
export function parseSavedTime(text: string): SavedTime | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || field(value, 'format') !== format) return undefined;
    const [time, offset] = [field(value, 'time'), field(value, 'offset')];
    return Number.isFinite(time) && Number.isFinite(offset)
      ? { time: Number(time), offset: Number(offset) }
      : undefined;
  } catch {
    return undefined;
  }
}
