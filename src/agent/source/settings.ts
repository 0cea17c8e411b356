/** Owns the reading of the settings of the organization that the agent follows, in the order of its requests. */
import type { AgentSettings } from '../../api/organization.ts';
import { field, isObject } from '../../policy/json.ts';

const observeModes = ['off', 'counters', 'refused', 'all'] as const;

/** What holds until a server has said otherwise. */
export const defaultSettings: AgentSettings = { observe: 'counters', refuse_with: 'drop' };

/** The settings in the server's answer. A value that this agent does not know means the default; a server that sends none leaves all as it is. */
function readSettings(answer: unknown): AgentSettings | undefined {
  const settings = isObject(answer) ? field(answer, 'settings') : undefined;
  if (!isObject(settings)) return undefined;
  const observe = observeModes.find((mode) => mode === field(settings, 'observe')) ?? 'counters';
  return { observe, refuse_with: field(settings, 'refuse_with') === 'reject' ? 'reject' : 'drop' };
}

/**
 * The settings come with the answers to two kinds of reports, which may overtake each other. The server asks for a report
 * after a change, so the answer to the newest request holds the newest settings, and a later answer to an older request may not.
 */
export class SettingsAnswers {
  readonly #follow: (settings: AgentSettings) => void;
  #asked = 0;
  #followed = 0;

  constructor(follow: (settings: AgentSettings) => void) {
    this.#follow = follow;
  }

  /** Sends a request, and follows the settings in its answer. */
  async of(request: () => Promise<unknown>): Promise<void> {
    const number = ++this.#asked;
    const settings = readSettings(await request());
    if (settings === undefined || number < this.#followed) return;
    this.#followed = number;
    this.#follow(settings);
  }
}
