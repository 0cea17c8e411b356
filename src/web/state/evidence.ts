/** Owns the text of evidence that was just made, on its way from the dialog to the page that shows it. */
let made: string | undefined;

export const keepEvidence = (text: string): void => void (made = text);

/** Once: it does not stay for the next person at this browser. */
export function takeEvidence(): string | undefined {
  const text = made;
  made = undefined;
  return text;
}
