/** Owns ports as people type them: a number, or the name of a well-known service. */
import { closestWord } from '../../client/words/closest-word.ts';
import { fitsProtocol, serviceNamed, services } from '../../policy/services.ts';
import { usageError } from './exit.ts';

/** The port of a service by its name; undefined where the text is no such name. */
export function portNamed(text: string, protocol: string): number | undefined {
  const service = serviceNamed(text);
  if (service === undefined) return undefined;
  if (!fitsProtocol(service, protocol)) {
    throw usageError(`\`${text}\` is ${service.ip_protocol} ${service.port}, not ${protocol}`);
  }
  return service.port;
}

/** A hint at the service that was perhaps meant. */
export function nearService(text: string): string {
  const near = /^[a-z]/i.test(text)
    ? closestWord(
        text,
        services.flatMap(({ words }) => words),
      )
    : undefined;
  return near === undefined ? '' : ` (did you mean \`${near}\`?)`;
}

/** One port that a packet can have. */
export function readPort(text: string | undefined, protocol: string): number | undefined {
  const named = text === undefined ? undefined : portNamed(text, protocol);
  if (named !== undefined) return named;
  const number = /^\d{1,5}$/.test(text ?? '') ? Number(text) : 0;
  return number >= 1 && number <= 65_535 ? number : undefined;
}
