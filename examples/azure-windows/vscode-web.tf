# An editor in the browser: the script installs and starts it, and the app shows it.

locals {
  # the editor must know the address at which the browser finds it
  editor_path = "/@${data.coder_workspace_owner.me.name}/${data.coder_workspace.me.name}.main/apps/vscode-web"
}

resource "coder_script" "vscode_web" {
  agent_id     = coder_agent.main.id
  display_name = "VS Code"
  icon         = "/icon/code.svg"
  run_on_start = true
  script       = <<-EOT
    $ErrorActionPreference = "Stop"
    $folder = Join-Path $HOME ".vscode-web"
    if (-not (Test-Path "$folder\code.exe")) {
      New-Item -ItemType Directory -Force $folder | Out-Null
      Invoke-WebRequest -UseBasicParsing -OutFile "$folder\code.zip" `
        "https://update.code.visualstudio.com/latest/cli-win32-x64/stable"
      Expand-Archive -Force "$folder\code.zip" $folder
    }
    Start-Process -WindowStyle Hidden "$folder\code.exe" (
      "serve-web --host 127.0.0.1 --port 13338 --server-base-path ${local.editor_path}" +
      " --without-connection-token --accept-server-license-terms")
  EOT
}

resource "coder_app" "vscode_web" {
  agent_id     = coder_agent.main.id
  slug         = "vscode-web"
  display_name = "VS Code"
  icon         = "/icon/code.svg"
  url          = "http://localhost:13338${local.editor_path}"
  healthcheck {
    url       = "http://localhost:13338${local.editor_path}/"
    interval  = 5
    threshold = 60
  }
}
