export interface AnswerHeaders {
  get(name: string): string | null;
  /** The separate values of one name, if they are known. */
  lines?(name: string): string[];
}

/** Called with the headers of each answer: to a call, or to a request that opens a stream. */
export type OnAnswer = (headers: AnswerHeaders, to: 'call' | 'stream') => void;

export interface FetchAnswer {
  status: number;
  headers: AnswerHeaders;
  text(): Promise<string>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
