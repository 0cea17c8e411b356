/** Owns the reading of the settings of the organization that the agent follows. */
import type { AgentSettings } from '../../api/organization.ts';
import { field, isObject } from '../../policy/json.ts';

const observeModes = ['off', 'counters', 'refused', 'all'] as const;

/** What holds until a server has said otherwise. */
export const defaultSettings: AgentSettings = { observe: 'counters', refuse_with: 'drop' };

/** The settings in the server's answer. A value that this agent does not know means the default; a server that sends none leaves all as it is. */
export function readSettings(answer: unknown): AgentSettings | undefined {
  const settings = isObject(answer) ? field(answer, 'settings') : undefined;
  if (!isObject(settings)) return undefined;
  const observe = observeModes.find((mode) => mode === field(settings, 'observe')) ?? 'counters';
  return { observe, refuse_with: field(settings, 'refuse_with') === 'reject' ? 'reject' : 'drop' };
}
