/** Owns a write that a user starts on a page: whether it is running, and its error. */
import { useMutation } from '@tanstack/react-query';
import { sentence } from '../components/sentence.ts';
import { failed } from '../components/toast.tsx';
import { WriteDeclined } from './refusal.ts';

export interface Write<Given> {
  readonly start: (given: Given) => void;
  /** Starts a write that takes nothing, as a form does when it is submitted. */
  readonly submit: (event: { preventDefault(): void }) => void;
  readonly busy: boolean;
  /** What went wrong last, for a person. */
  readonly fault: string | undefined;
  /** Forgets what went wrong. */
  readonly forget: () => void;
}

/** The person saw why the server refused it, and left it at that: there is nothing more to say. */
const isDeclined = (error: unknown): boolean => error instanceof WriteDeclined;

/**
 * `work` is all of it: the request, and what the page does once it is answered. With a title for failures, these are also shown at the edge of the
 * page.
 */
export function useWrite<Given = void>(work: (given: Given) => Promise<unknown>, failureTitle?: string): Write<Given> {
  const { mutate, isPending, error, reset } = useMutation<void, unknown, Given>({
    mutationFn: async (given) => {
      // The answer is not returned: it may hold a secret, and the library keeps results for a while.
      await work(given);
    },
    // A browser that believes to be offline may still reach its server.
    networkMode: 'always',
    onError: (cause: unknown) => {
      if (failureTitle !== undefined && !isDeclined(cause)) failed(cause, failureTitle);
    },
  });
  const start = (given: Given): void => mutate(given);
  return {
    start,
    submit: (event) => {
      event.preventDefault();
      start(undefined as Given);
    },
    busy: isPending,
    fault: error === null || isDeclined(error) ? undefined : sentence(error),
    forget: () => {
      if (!isPending) reset();
    },
  };
}
