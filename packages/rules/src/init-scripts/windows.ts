/**
 * Returns the start script of an agent on Windows, in PowerShell 5. It downloads the program, checks it, and runs the
 * agent. It throws instead of exiting, so that a person's shell that runs it with `iex` stays open.
 */
export const windowsScript = (arch: string): string => `$ErrorActionPreference = "Stop"
$ProgressPreference = "SilentlyContinue"

try {
    [Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
    $BinaryUrl = "\${ACCESS_URL}bin/coder-windows-${arch}.exe"
    $Binary = Join-Path $env:TEMP "coder.exe"

    while ($true) {
        try {
            Invoke-WebRequest -UseBasicParsing -Uri $BinaryUrl -OutFile $Binary
            break
        } catch {
            Write-Output "coder: could not fetch $BinaryUrl, trying again in 30 seconds: $_"
            Start-Sleep -Seconds 30
        }
    }

    $Version = & $Binary --version | Select-Object -First 1
    if (-not ("$Version" -match "Coder")) {
        throw "the file from $BinaryUrl does not run here or is not coder: $Version"
    }

    $env:CODER_AGENT_AUTH = "\${AUTH_TYPE}"
    $env:CODER_AGENT_URL = "\${ACCESS_URL}"
    & $Binary agent
    if ($LASTEXITCODE -ne 0) { throw "the agent ended with status $LASTEXITCODE" }
} catch {
    Write-Output "coder: the agent could not run: $_. Staying for a day so that this can be read."
    Start-Sleep -Seconds 86400
    throw
}
`;
